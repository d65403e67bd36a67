"""Which lanes a text names, and what is said of one that makes no sense."""

import pytest

from heddle.core.errors import ConfigError
from heddle.engines.llm.lanes.lane_role import LaneRole, lane_names, lane_roles

BOTH, PREFILL, DECODE = LaneRole.BOTH, LaneRole.PREFILL, LaneRole.DECODE


@pytest.mark.parametrize(
    ("text", "roles", "names"),
    [
        ("both", (BOTH,), ("llm",)),
        ("both,both", (BOTH, BOTH), ("llm-both-0", "llm-both-1")),
        ("prefill, decode", (PREFILL, DECODE), ("llm-prefill", "llm-decode")),
        (
            "decode,prefill,decode",
            (DECODE, PREFILL, DECODE),
            ("llm-decode-0", "llm-prefill", "llm-decode-1"),
        ),
        ("prefill,both", (PREFILL, BOTH), ("llm-prefill", "llm-both")),
    ],
)
def test_a_text_names_lanes(text, roles, names):
    assert lane_roles(text) == roles
    assert lane_names(roles) == names


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prefill", "add decode"),
        ("prefill,prefill", "add decode"),
        ("decode", "add prefill"),
        ("both,decode", "add prefill"),
        ("prefill,decoder", "'decoder' is no role; name one of both, prefill, decode"),
        ("", "'' is no role"),
        ("prefill,,decode", "'' is no role"),
    ],
)
def test_lanes_that_make_no_sense_are_refused(text, words):
    with pytest.raises(ConfigError, match="llm_lanes is ") as refusal:
        lane_roles(text)
    assert words in str(refusal.value)
