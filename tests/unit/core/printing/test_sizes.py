"""Sizes are in whole MiB."""

from heddle.core.printing.sizes import mib


def test_a_size_is_rounded_to_whole_mebibytes() -> None:
    assert mib(1536 << 20) == "1,536 MiB"
    assert mib((3 << 20) // 2 + 1) == "2 MiB"
