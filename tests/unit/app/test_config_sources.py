"""Settings from flags, environment variables and heddle.toml."""

from pathlib import Path

import pytest

from heddle.app.config_sources import choose
from heddle.app.server_config import ServerConfig
from heddle.app.setting import fields_of, value_text
from heddle.core.errors import ConfigError
from heddle.server.http_config import HttpConfig

FIELDS = tuple(fields_of(ServerConfig).values())
# One value of every field, as text.
TEXTS = {
    "generator": "m",
    "index": "corpus",
    "embedder": "e",
    "hot_clusters": "20%",
    "temperature": "0.5",
    "llm_lanes": "prefill,decode",
    "replicas": "llm=2",
    "agents": "10.0.0.2:7070",
    "embedding_lanes": "cpu:0-3,cuda:0",
    "stage_mix": "1.5,2",
    "kv_reuse": "epic,0.2",
    "disabled_passes": "ask_ahead",
    "recall": "0.9",
    "answer_cache_similarity": "0.9",
    "bulk_share": "0.25",
    "search_pool_flush_s": "0.02",
}


def test_errors_speak_of_python_in_python_alone():
    for name, value in (("max_tokens", 0), ("reprime", "perhaps"), ("disabled_passes", 3)):
        field = fields_of(ServerConfig)[name]
        with pytest.raises(ConfigError, match=f"^{name} must be .* in Python"):
            field.read(value)
        with pytest.raises(ConfigError, match=f"^{name} must be .*, got {value!r}$") as refused:
            field.read(value, in_python=False)
        assert "Python" not in str(refused.value)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def text_of(field) -> str:
    if field.choices:
        return field.choices[-1]
    return TEXTS.get(field.name, "off" if isinstance(field.default, bool) else "3")


def chosen(file: Path | None = None, environment: dict | None = None, **flags: object):
    return choose(FIELDS, flags=flags, environment=environment or {}, file=file)


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_every_field_has_a_variable_and_a_key(field, here: Path):
    text = text_of(field)
    found = chosen(environment={field.variable: text, "PATH": "x"})
    assert found[field.name].value == field.read(text)
    assert found[field.name].source == field.variable
    (here / "heddle.toml").write_text(f'{field.key} = "{text}"\n')
    found = chosen()
    assert found[field.name].value == field.read(text)
    assert found[field.name].source == "heddle.toml"


def test_numbers_switches_and_lists_of_toml(here: Path):
    (here / "heddle.toml").write_text(
        'shards = 2\nrecall = 0.9\nspeculate = "always"\ndisabled_passes = ["ask_ahead"]\n'
        'kv_cache_bytes = 1000\nsearch_pool = "none"\n'
    )
    assert {name: choice.value for name, choice in chosen().items()} == {
        "shards": 2,
        "recall": 0.9,
        "speculate": "always",
        "disabled_passes": {"ask_ahead"},
        "kv_cache_bytes": 1000,
        "search_pool": None,
    }


def test_a_flag_comes_before_the_environment_and_that_before_the_file(here: Path):
    (here / "heddle.toml").write_text("shards = 2\ntopm = 5\nnprobe = 7\n")
    environment = {"HEDDLE_SHARDS": "3", "HEDDLE_TOPM": "6"}
    found = chosen(environment=environment, shards=4)
    assert {name: str(choice) for name, choice in found.items()} == {
        "shards": "shards = 4 (--shards)",
        "topm": "topm = 6 (HEDDLE_TOPM)",
        "nprobe": "nprobe = 7 (heddle.toml)",
    }


def test_a_named_file_is_read_instead_of_the_one_here(here: Path):
    (here / "heddle.toml").write_text("shards = 2\n")
    (here / "other.toml").write_text('model = "m"\n')
    assert {name: c.value for name, c in chosen(here / "other.toml").items()} == {"generator": "m"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("shard = 2", "heddle.toml: 'shard' is no setting: did you mean 'shards'?"),
        (
            "[server]\nshards = 2",
            "heddle.toml: 'server' is no setting: the file has no tables; write settings without ",
        ),
        ("shards = 0", "heddle.toml: shards must be an integer from 1 to 64, got 0"),
        ("shards = 2.5", "heddle.toml: shards must be an integer"),
        ('search_pool = "lifo"', "heddle.toml: search_pool must be one of adaptive"),
        ("shards = ", "heddle.toml is no TOML"),
    ],
)
def test_what_a_file_can_not_say(text: str, words: str, here: Path):
    (here / "heddle.toml").write_text(text)
    with pytest.raises(ConfigError) as refused:
        chosen()
    assert words in str(refused.value)


def test_files_that_can_not_be_read(here: Path):
    with pytest.raises(ConfigError, match=r"gone\.toml isn't there"):
        chosen(here / "gone.toml")
    with pytest.raises(ConfigError, match="can't be read: Is a directory"):
        chosen(here)
    (here / "latin.toml").write_bytes(b'model = "\xff"')
    with pytest.raises(ConfigError, match="is no TOML"):
        chosen(here / "latin.toml")


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_a_misspelt_variable_is_refused_with_the_right_one(field):
    misspelt = field.variable + "X"
    with pytest.raises(ConfigError, match=f"{misspelt} is no setting: did you mean 'HEDDLE_"):
        chosen(environment={misspelt: "1"})


def test_variables_of_other_kinds_are_left_alone():
    assert (
        chosen(environment={"HEDDLE_CACHE": "x", "HEDDLE_DATA": "y", "HEDDLE_SOMETHING": "z"}) == {}
    )


def test_what_kubernetes_says_of_a_service_called_heddle_is_no_setting():
    fields = (*FIELDS, *fields_of(HttpConfig).values())
    link = "tcp://10.96.0.7:8321"
    of_service = {
        "HEDDLE_SERVICE_HOST": "10.96.0.7",
        "HEDDLE_SERVICE_PORT": "8321",
        "HEDDLE_SERVICE_PORT_HTTP": "8321",
        "HEDDLE_PORT": link,
        "HEDDLE_PORT_8321_TCP": link,
        "HEDDLE_PORT_8321_TCP_PROTO": "tcp",
        "HEDDLE_PORT_8321_TCP_PORT": "8321",
        "HEDDLE_PORT_8321_TCP_ADDR": "10.96.0.7",
    }
    assert choose(fields, flags={}, environment=of_service) == {}
    with pytest.raises(ConfigError, match=r"^HEDDLE_PORT: port must be an integer"):
        choose(fields, flags={}, environment={"HEDDLE_PORT": "10.96.0.7:8321"})


def test_a_wrong_variable_is_named():
    with pytest.raises(
        ConfigError, match=r"^HEDDLE_SHARDS: shards must be an integer from 1 to 64"
    ):
        chosen(environment={"HEDDLE_SHARDS": "many"})


def test_values_are_shown_as_they_are_written():
    assert [
        value_text(value) for value in (True, False, None, frozenset(), frozenset("ba"), 2.5)
    ] == [
        "on",
        "off",
        "None",
        "none",
        "a,b",
        "2.5",
    ]
