"""Lanes as a user names them, and what is no lane."""

import pytest

from heddle.core.errors import ConfigError
from heddle.engines.embedding.wanted_lanes import LANES_MAX, WantedLane, wanted_lanes


def test_lanes_are_devices_and_cores() -> None:
    assert wanted_lanes("auto") is None
    assert wanted_lanes("cpu:0-3, cpu:9+4-5,cuda:0,npu:01") == (
        WantedLane("cpu", (0, 1, 2, 3)),
        WantedLane("cpu", (4, 5, 9)),
        WantedLane("cuda:0"),
        WantedLane("npu:1"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is no lane; write each as cpu:0-3"),
        ("cpu", "'cpu' is no lane"),
        ("cuda", "'cuda' is no lane"),
        ("cuda:x", "'cuda:x' is no lane"),
        ("gpu:0", "'gpu:0' is no lane"),
        ("cpu:0-1,4-5", "'4-5' is no lane; .* join the cores of one lane with [+]"),
        ("cpu:3-0", "'3-0' is no range of cores; write the lower one first"),
        ("cpu:0+", "'' is no range"),
        ("cpu:0-99999", "'0-99999' is no range"),
        ("cpu:0-3,cpu:3-5", "names core 3 twice"),
        ("cpu:1+0-2", "names core 1 twice"),
        ("cuda:0,cuda:0", "names cuda:0 twice"),
        (",".join(f"cpu:{n}" for n in range(LANES_MAX + 1)), "names 65 lanes; at most 64"),
    ],
)
def test_what_is_no_lane_is_refused_with_the_fix(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"embedding_lanes.*{message}"):
        wanted_lanes(text)
