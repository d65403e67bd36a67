"""A tiny model whose words are noise, and a few questions with passages."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.tiny_server import DOCUMENTS, write_model


@pytest.fixture(scope="package", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what benchmarks keep apart from the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEDDLE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def tiny_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Questions as a data set file, each with seven of the same ten passages."""
    passages = [{"title": name, "text": text} for name, text in DOCUMENTS.items()]
    rows = [
        {
            "id": f"q{i}",
            "kind": ("two_hop", "coreference")[i % 2],
            "question": f"Who keeps the lighthouse on Rock {i}?",
            "answers": ["Ada"],
            "passages": passages[i : i + 7],
        }
        for i in range(4)
    ]
    path = tmp_path_factory.mktemp("notes") / "notes.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
