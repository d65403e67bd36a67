"""Here a store is a SQLite file."""

import pytest

from heddle.corpus.store import CorpusStore


@pytest.fixture
def store(sqlite_store: CorpusStore) -> CorpusStore:
    return sqlite_store
