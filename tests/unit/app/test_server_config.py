import pytest

from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError
from heddle.core.tasks import Optimizations


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"host": "cloud"}, "host must be one of process, inline, got 'cloud'"),
        ({"chunk_kv_encoding": "int4"}, "chunk_kv_encoding must be one of bf16, int8, got 'int4'"),
        ({"batching": "fifo"}, "batching must be one of .*topology_aware"),
        ({"generator": None}, "a generator, an index, or both"),
        ({"max_num_seqs": 0}, "max_num_seqs must be at least 1"),
        ({"max_num_batched_tokens": -1}, "max_num_batched_tokens must be at least 1"),
        ({"tool_threads": 0}, "tool_threads must be at least 1"),
        ({"background_step_s": 0.0}, "background_step_s must be a positive time"),
        ({"shards": 0}, "shards must be at least 1"),
        ({"shards": 65}, "shards must be at most 64"),
        ({"context_tokens_max": 0}, "context_tokens_max must be at least 1"),
        ({"kv_bytes": -1}, "kv_bytes must be at least 1"),
        ({"pool_slo_s": 0.1}, "pool_slo_s .*--pool-slo-ms.* there is none: set pool .*adaptive"),
        ({"search": "target:0.95"}, "approximate answers: allow them with optimizations="),
        ({"search": "target:2"}, "a recall between 0 and 1"),
        ({"search": "speculative", "shards": 2}, "set shards to 1 or search to exact"),
        ({"llm_lanes": "prefill"}, "llm_lanes is 'prefill': no lane decodes .* add decode"),
        ({"llm_lanes": "prefill,verify"}, "llm_lanes .* 'verify' is no role; name one of both"),
        (
            {"llm_lanes": "both,both", "optimizations": Optimizations.APPROX},
            "2 lanes that prefill can't share one folder .* set chunk_kv_disk_bytes",
        ),
        ({"pool": "fifo", "pool_slo_s": -0.1}, "pool_slo_s must be a positive time"),
    ],
)
def test_a_value_out_of_range_is_named(settings: dict, words: str):
    with pytest.raises(ConfigError, match=words):
        ServerConfig(**settings)


def test_the_defaults_hold():
    assert ServerConfig().generator == "reader"
    assert ServerConfig(generator=None, index="corpus").host == "process"
