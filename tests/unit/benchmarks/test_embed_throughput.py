"""Who takes part in embed-throughput."""

import sys

import pytest

from benchmarks.embed_throughput import _infinity


def test_infinity_is_left_out_with_the_reason_where_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "infinity_emb", None)
    monkeypatch.setenv("DO_NOT_TRACK", "0")
    encoder, note = _infinity(2)
    assert encoder is None
    assert note.startswith("left out, it can't be imported (")
