"""Fixtures of the corpus tests."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for corpora.py: importlib mode adds nothing

from corpora import STAMP

from heddle.corpus.store import CorpusStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CorpusStore]:
    with CorpusStore.open(tmp_path / "corpus", create=True) as opened:
        opened.set_embedder(STAMP)
        yield opened
