"""How many equal lanes of a kind a server has, as a text says it."""

import pytest

from heddle.app.replicas import REPLICAS_MAX, Replicas, replicas_of, roles_of
from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError
from heddle.engines.llm.lanes.lane_role import LaneRole


def test_what_a_text_says():
    assert replicas_of("llm=2,retrieval=3") == Replicas(2, 3)
    assert replicas_of(" retrieval = 2 ") == Replicas(1, 2)


@pytest.mark.parametrize(
    "text",
    ["2", "llm", "llm=0", "llm=x", "llm=-1", "llm=2,llm=2", "tools=2", f"llm={REPLICAS_MAX + 1}"],
)
def test_what_is_not_understood_is_refused(text):
    with pytest.raises(ConfigError, match=r"replicas is .*such as llm=2,retrieval=2"):
        replicas_of(text)


def test_replicas_of_the_llm_are_lanes_that_do_all():
    assert roles_of("both", "llm=2") == (LaneRole.BOTH, LaneRole.BOTH)
    assert roles_of("prefill,decode", "retrieval=2") == (LaneRole.PREFILL, LaneRole.DECODE)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"replicas": "llm=2", "llm_lanes": "prefill,decode"}, "llm_lanes names every lane"),
        ({"replicas": "retrieval=2", "shards": 2}, "either copied or divided"),
        (
            {"replicas": "llm=2", "optimizations": "approx", "kv_reuse": "fusionrag"},
            "2 LLM lanes that prefill",
        ),
    ],
)
def test_what_can_t_be_together_is_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        ServerConfig.of("model", "corpus", settings)
