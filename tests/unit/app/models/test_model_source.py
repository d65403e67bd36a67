from importlib.metadata import EntryPoint
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from heddle.app.models import model_source
from heddle.app.models.model_source import installed_models, model_directory
from heddle.core.errors import InputError


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("tiny", "os:getcwd", model_source.ENTRY_POINTS)
    monkeypatch.setattr(model_source, "entry_points", lambda group: [entry])


def test_a_directory_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert model_directory(tmp_path) == tmp_path.resolve()
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "model").mkdir()
    assert model_directory("~/model") == (tmp_path / "model").resolve()


@pytest.mark.usefixtures("_installed")
def test_an_installed_model_is_found_by_its_name():
    assert installed_models() == ("tiny",)
    assert model_directory("tiny") == Path.cwd()
    with pytest.raises(InputError, match=r"'huge' is no directory.*installed: tiny"):
        model_directory("huge")


def test_a_file_is_no_model(tmp_path: Path):
    (tmp_path / "model.gguf").touch()
    with pytest.raises(InputError, match="is a file; name the directory"):
        model_directory(tmp_path / "model.gguf")


@pytest.mark.parametrize("name", ["model/", "my models/reader", "models/reader-", "a/.."])
def test_a_path_that_is_not_there_is_no_name_for_the_hub(name: str):
    with pytest.raises(InputError, match=r"is no directory, and no owner/name .*: check the path"):
        model_directory(name)


@pytest.mark.parametrize("name", ["nope", "./no/pe", "/no/pe", "~no/pe", "a/b/c"])
def test_an_unknown_name(name: str):
    with pytest.raises(InputError, match=r"pip install heddle-reader|installed: .*owner/name"):
        model_directory(name)


def test_the_reader_that_is_not_installed_names_its_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(model_source, "entry_points", lambda group: [])
    with pytest.raises(InputError, match=r"'reader' is not installed: pip install 'heddle\[reader"):
        model_directory("reader")


def test_the_hub_is_asked_for_safe_files_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    asked = []

    def snapshot(name: str, *, allow_patterns: list[str], local_files_only: bool) -> str:
        asked.append((name, local_files_only))
        assert not any(pattern.endswith((".bin", ".py", ".pt", "*")) for pattern in allow_patterns)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    assert model_directory("owner/name") == tmp_path
    assert model_directory("owner/name", fetch=False) == tmp_path
    assert asked == [("owner/name", False), ("owner/name", True)]


@pytest.mark.parametrize(
    ("fetch", "words"), [(True, "can't be fetched.*network"), (False, "is not on this machine")]
)
def test_a_hub_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, fetch: bool, words: str):
    def snapshot(name: str, **_: object) -> str:
        raise LocalEntryNotFoundError(name)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    with pytest.raises(InputError, match=words):
        model_directory("owner/name", fetch=fetch)
