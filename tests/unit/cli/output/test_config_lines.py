"""--print-config says what counts and why, in a form that can be saved as heddle.toml."""

import tomllib
from pathlib import Path

import pytest

from heddle.app.config_sources import choose
from heddle.app.server_config import ServerConfig
from heddle.app.setting import fields_of
from heddle.cli.config_options import CONFIGS
from heddle.cli.main import main
from heddle.cli.output.config_lines import config_lines
from tests.unit.app.test_config_sources import text_of


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(capsys: pytest.CaptureFixture, *arguments: str) -> str:
    assert main(["serve", "--print-config", *arguments]) == 0
    return capsys.readouterr().out


def test_each_value_has_its_source(
    capsys: pytest.CaptureFixture, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "heddle.toml").write_text("shards = 2\nkv_cache_bytes = '1G'\n")
    monkeypatch.setenv("HEDDLE_LOG_FORMAT", "json")
    monkeypatch.setenv("HEDDLE_API_KEY", "hk-hush")
    lines = printed(capsys, "corpus", "--port", "9").splitlines()
    assert "shards = 2  # heddle.toml" in lines
    assert "kv_cache_bytes = 1073741824  # heddle.toml" in lines
    assert 'log_format = "json"  # HEDDLE_LOG_FORMAT' in lines
    assert "port = 9  # --port" in lines
    assert 'index = "corpus"  # --index' in lines
    assert 'host = "127.0.0.1"  # default' in lines
    assert 'nprobe = "default"  # default' in lines
    assert "# HEDDLE_API_KEY is set: ********" in lines
    assert "hush" not in "".join(lines)


def test_it_can_be_saved_and_read_again(capsys: pytest.CaptureFixture, here: Path) -> None:
    text = printed(capsys, "corpus", "--workflow", "a.py:x", "--kv-reuse", "epic,0.2")
    file = here / "saved.toml"
    file.write_text(text)
    fields = [field for config in CONFIGS for field in fields_of(config).values()]
    assert set(tomllib.loads(text)) == {field.key for field in fields}
    again = choose(fields, flags={}, environment={}, file=file)
    assert again["workflows"].value == {"a.py:x"}
    assert str(again["kv_reuse"].value.policy.value) == "epic"
    unchanged = [field for field in fields if field.name not in ("workflows", "kv_reuse", "index")]
    assert [field.name for field in unchanged if again[field.name].value != field.default] == []


@pytest.mark.parametrize("text", ["Être bref 😀", 'a "b" \\ c', "one\ntwo\x7f"])
def test_every_text_survives(text: str) -> None:
    field = fields_of(ServerConfig)["system"]
    chosen = choose([field], flags={"system": text}, environment={})
    assert tomllib.loads("\n".join(config_lines(chosen.values(), {}))) == {"system": text}


@pytest.mark.parametrize("field", fields_of(ServerConfig).values(), ids=lambda field: field.name)
def test_every_value_survives(field, here: Path) -> None:
    chosen = choose([field], flags={}, environment={field.variable: text_of(field)})
    file = here / "saved.toml"
    file.write_text("\n".join(config_lines(chosen.values(), {})))
    again = choose([field], flags={}, environment={}, file=file)
    assert again[field.name].value == chosen[field.name].value


def test_settings_that_can_not_be_used_are_refused(capsys: pytest.CaptureFixture) -> None:
    assert main(["serve", "corpus", "--print-config", "--expected-rate", "2"]) == 2
    assert "there is none: set memory_profile" in capsys.readouterr().err
