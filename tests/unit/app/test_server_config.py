"""ServerConfig: every field refuses values that it can't have, before anything starts."""

import dataclasses
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.app import server_settings
from heddle.app.server_config import ServerConfig
from heddle.app.server_settings import ServerSettings
from heddle.app.setting import ConfigField, fields_of
from heddle.app.value_kind import Member, Names, Number, Place, Reuse, Size, Switch, Text, Whole
from heddle.core.errors import ConfigError
from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.core.tasks import Optimizations
from heddle.engines.embedding.long_texts import LongTexts
from heddle.engines.vector.pool.policies import PoolPolicy
from heddle.engines.vector.shards.port import LostShard

FIELDS = fields_of(ServerConfig)
APPROX = {"optimizations": Optimizations.APPROX}
# Values of a field's own type that its check refuses.
OUT_OF_RANGE: dict[str, list[object]] = {
    "hot_clusters": ["warm", "0%", "101%"],
    "llm_lanes": ["prefill", "both,verify"],
}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"engine_host": "cloud"}, "engine_host must be one of process, inline, got 'cloud'"),
        ({"kv_reuse_encoding": "int4"}, "kv_reuse_encoding must be one of bf16, int8, got 'int4'"),
        ({"batching": "fifo"}, "batching must be one of .*topology_aware"),
        ({"generator": None}, "a generator, an index, or both"),
        ({"dtype": "float17"}, "dtype must be one of auto, float32, bfloat16, got 'float17'"),
        ({"weights": "int4"}, "weights must be one of full, int8, got 'int4'"),
        ({"weights": "int8", "device": "cuda"}, "weights is 'int8', which is for CPUs"),
        ({"device": "gpu"}, "device must be one of auto, cpu, cuda, got 'gpu'"),
        ({"optimizations": "approx"}, "optimizations must be one of off, exact, approx"),
        ({"max_num_seqs": 0}, "max_num_seqs must be an integer of at least 1"),
        ({"max_num_seqs": "16"}, r"max_num_seqs must be an integer .*, got '16' \(str\)"),
        ({"max_num_batched_tokens": -1}, "max_num_batched_tokens must be .* at least 1"),
        ({"tool_threads": 0}, "tool_threads must be .* at least 1"),
        ({"background_step_s": 0.0}, "background_step_s must be a number above 0"),
        ({"shards": 0}, "shards must be an integer from 1 to 64, got 0"),
        ({"shards": 65}, "shards must be an integer from 1 to 64, got 65"),
        ({"context_tokens_max": 0}, "context_tokens_max must be .* at least 1"),
        ({"kv_cache_bytes": -1}, "kv_cache_bytes must be .* at least 1"),
        ({"stage_mix": "1,2"}, "stage_mix says how .* there is none: set memory_profile"),
        ({"expected_rate": 2.0}, "expected_rate says how a memory profile is read"),
        ({"embedding_slo_s": 0.1}, "is for the depths of windve, .* set that to windve, or leave"),
        ({"embedding_depths": "file"}, "embedding_depths is for the depths of windve"),
        ({"embedding_lanes": "cpu"}, "embedding_lanes.* 'cpu' is no lane"),
        ({"search_pool_slo_s": 0.1}, "search_pool_slo_s .* there is none: set search_pool .*adapt"),
        ({"recall": 2.0}, "recall must be a number above 0 and below 1"),
        ({"speculate": "always", "shards": 2}, "set shards to 1, or speculate to auto or never"),
        ({"llm_lanes": "prefill"}, "llm_lanes is 'prefill': no lane decodes .* add decode"),
        ({"llm_lanes": "prefill,verify"}, "llm_lanes .* 'verify' is no role; name one of both"),
        ({"llm_lanes": "both,both", **APPROX}, "can't share one folder .* kv_reuse_disk_bytes"),
        ({"ray": "auto", "replicas": "llm=2", **APPROX}, "^optimizations is 'approx', .* and ray "),
        ({"ray": "auto", **APPROX}, "set optimizations to exact, or kv_reuse_memory_bytes to 0$"),
        ({"search_pool": PoolPolicy.FIFO, "search_pool_slo_s": -0.1}, "a number above 0"),
    ],
)
def test_a_value_out_of_range_is_named(settings: dict, words: str):
    with pytest.raises(ConfigError, match=words):
        ServerConfig(**settings)


def test_the_defaults_hold():
    config = ServerConfig(index="corpus")
    assert (config.generator, config.llm, config.reads) == ("extract", None, True)
    assert config.default_workflow == "quote"
    assert ServerConfig("reader").default_workflow == "oneshot"
    assert not ServerConfig(None, "corpus").reads
    assert ServerConfig(generator=None, index="corpus").engine_host == "process"


def test_texts_stand_for_values():
    config = ServerConfig.of(
        "reader",
        Path("corpus"),
        {
            "long_texts": "Window",
            "lost_shard": "degrade",
            "shards": "2",
            "recall": "0.95",
            "embedding_lanes": "cpu:0-3,cuda:0",
            "embedding_admission": "windve",
            "embedding_slo_s": "0.5",
            "kv_cache_bytes": "2GiB",
            "kv_reuse": "fusionrag,0.2",
            "disabled_passes": "split_substages, ask_ahead",
            "search_pool": "none",
            "deadline_s": 7,
        },
    )
    assert config.long_texts is LongTexts.WINDOW
    assert config.lost_shard is LostShard.DEGRADE
    assert (config.shards, config.recall, config.embedding_slo_s) == (2, 0.95, 0.5)
    assert config.kv_cache_bytes == 2 << 30
    assert config.kv_reuse == KvReuse(ReusePolicy.FUSIONRAG, 0.2)
    assert config.disabled_passes == {"split_substages", "ask_ahead"}
    assert config.search_pool is None
    assert config.limits.deadline_s == 7


def test_every_field_reads_its_own_default():
    for field in FIELDS.values():
        assert field.read(field.default) == field.default


@pytest.mark.parametrize(
    ("size", "count"),
    [("1000", 1000), ("3k", 3 << 10), ("512M", 512 << 20), ("1gb", 1 << 30), ("1GiB", 1 << 30)],
)
def test_a_size_in_bytes(size: str, count: int):
    assert FIELDS["kv_cache_bytes"].read(size) == count


@pytest.mark.parametrize("size", ["", "much", "-1", "1.5G", "2T", 1.0])
def test_what_is_no_size_is_refused(size: object):
    with pytest.raises(ConfigError, match="kv_cache_bytes must be a size such as 512M or 2G"):
        FIELDS["kv_cache_bytes"].read(size)


@pytest.mark.parametrize(
    "asks", [{"recall": 0.9}, {"kv_reuse": "epic"}, {"answer_cache": "similar"}]
)
def test_approximate_answers_follow_from_what_asks_for_them(asks: dict):
    assert ServerConfig().optimizations_max is Optimizations.EXACT
    assert ServerConfig.of("reader", None, asks).optimizations_max is Optimizations.APPROX
    for mode in ("off", "exact"):
        with pytest.raises(ConfigError, match="set optimizations to approx, or leave it out"):
            ServerConfig.of("reader", None, {**asks, "optimizations": mode})
    assert ServerConfig.of("reader", None, {**asks, "optimizations": "approx"})


def test_a_name_is_given_once():
    with pytest.raises(ConfigError, match="generator is given twice"):
        ServerConfig.of("reader", None, {"generator": "other"})


def test_the_keywords_of_a_server_are_the_fields_of_its_config():
    keywords = get_type_hints(ServerSettings)
    fields = get_type_hints(ServerConfig)
    assert set(keywords) == set(fields) - {"generator", "index"}
    for name, keyword in keywords.items():
        own = set(get_args(fields[name]) or [fields[name]])
        # A field with an enum or a KvReuse takes its text as well.
        texts = set(get_args(keyword) or [keyword]) - own
        kind = FIELDS[name].kind
        if isinstance(kind, Member):
            assert {word for text in texts for word in get_args(text)} == set(kind.choices), name
        else:
            assert texts == ({str} if isinstance(kind, Reuse) else set()), name


def test_the_words_of_the_keywords_are_those_of_the_enums():
    for words, enum in (
        (server_settings.LongTextsWord, LongTexts),
        (server_settings.LostShardWord, LostShard),
        (server_settings.OptimizationsWord, Optimizations),
        (server_settings.PoolPolicyWord, PoolPolicy),
    ):
        assert get_args(words) == tuple(member.value for member in enum)


def test_every_field_says_what_it_is_and_how_it_is_written():
    for field in FIELDS.values():
        assert len(field.setting.help) <= 80
        assert not field.setting.help.endswith(".")
        assert field.setting.group
        assert field.choices or field.setting.form or isinstance(field.kind, Switch), field.name


# -- all fields at once -----------------------------------------------------------------------


def wrong_values(field: ConfigField) -> st.SearchStrategy[object]:
    """Values that a field can't have: of a wrong type, a wrong word, out of range."""
    anything = st.one_of(st.binary(), st.complex_numbers(), st.builds(object), st.just(...))
    words = st.text(min_size=1).map(lambda text: f"?{text}")
    about = field.setting
    low = about.low if about.low is not None else about.above
    high = about.high if about.high is not None else about.below
    below = [] if low is None else [low - 1, low - 1e9]
    if about.above is not None:
        below.append(about.above)
    above = [] if high is None else [high + 1, high + 1e9]
    if about.below is not None:
        above.append(about.below)
    ranges = [*below, *above]
    match field.kind:
        case Switch():
            more: list[Any] = [words, st.integers(), st.floats()]
        case Whole() | Size():
            wrong = [int(value) for value in ranges]
            fractions = st.floats().filter(lambda value: not value.is_integer())
            more = [words, st.booleans(), fractions, st.sampled_from(wrong or [b""])]
        case Number():
            more = [words, st.booleans(), st.sampled_from([float("nan"), float("inf"), *ranges])]
        case Text() | Place():
            more = [st.integers(), st.sampled_from(["", " "]), st.floats()]
        case Names():
            more = [st.integers(), st.just([1]), st.just("?")]
        case _:
            more = [words, st.integers(), st.booleans()]
    more += [st.just(value) for value in OUT_OF_RANGE.get(field.name, [])]
    if not field.is_optional:
        more.append(st.none())
    return st.one_of(anything, *more)


def settings_with(name: str, value: object) -> dict[str, object]:
    return {"generator": "reader", "index": None, name: value}


@pytest.mark.parametrize("name", FIELDS)
@given(data=st.data())
def test_a_wrong_value_of_any_field_is_refused_by_name_with_what_would_do(
    name: str, data: st.DataObject
):
    value = data.draw(wrong_values(FIELDS[name]))
    for make in (make_by_coercion, make_directly):
        with pytest.raises(ConfigError) as refused:
            make(name, value)
        said = str(refused.value)
        assert said.startswith(name)
        assert " must be " in said or "; " in said or ": " in said, said


def make_by_coercion(name: str, value: object) -> ServerConfig:
    settings = settings_with(name, value)
    return ServerConfig.of(settings.pop("generator"), settings.pop("index"), settings)


def make_directly(name: str, value: object) -> ServerConfig:
    return ServerConfig(**settings_with(name, value))


@pytest.mark.parametrize("name", sorted(set(FIELDS) - {"generator", "index"}))
@given(data=st.data())
def test_a_misspelt_name_of_any_field_is_refused_with_the_right_one(name: str, data: st.DataObject):
    place = data.draw(st.integers(0, len(name) - 1))
    letter = data.draw(st.sampled_from("xqz"))
    misspelt = name[:place] + letter + name[place + 1 :]
    if misspelt in FIELDS:
        return
    with pytest.raises(ConfigError) as refused:
        ServerConfig.of("reader", None, {misspelt: FIELDS[name].default})
    assert f"{misspelt!r} is no setting of a server" in str(refused.value)
    assert name in str(refused.value)


def test_a_config_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ServerConfig().shards = 2  # type: ignore[misc]
