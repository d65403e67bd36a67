"""Fixtures of the corpus tests: most of them run over each kind of store."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for corpora.py: importlib mode adds nothing

from corpora import STAMP

from heddle.corpus.store import CorpusStore
from tests.helpers.postgres import Databases, databases, name_of

ZERO_BLOB = (
    "CREATE FUNCTION zeroblob(INTEGER) RETURNS BYTEA LANGUAGE sql IMMUTABLE"
    " RETURN decode(repeat('00', $1), 'hex')"
)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Databases]:
    with databases() as found:
        yield found


@pytest.fixture(scope="session")
def template(postgres: Databases) -> str:
    """A database with the tables of a new corpus, to be copied."""
    url = postgres.new()
    with CorpusStore.open(url, create=True) as made:
        made.set_embedder(STAMP)
        with made._database.write() as connection:  # tests damage vectors by SQLite's name for it
            connection.execute("SET LOCAL ROLE postgres")
            connection.execute(ZERO_BLOB)
    return name_of(url)


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[CorpusStore]:
    with CorpusStore.open(tmp_path / "corpus", create=True) as opened:
        opened.set_embedder(STAMP)
        yield opened


@pytest.fixture
def postgres_url(
    postgres: Databases, template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The URL of a corpus with an embedder and without documents."""
    monkeypatch.setenv("HEDDLE_WORK", str(tmp_path / "work"))
    url = postgres.new(template)
    yield url
    postgres.drop(url)


@pytest.fixture
def postgres_store(postgres_url: str) -> Iterator[CorpusStore]:
    with CorpusStore.open(postgres_url) as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> CorpusStore:
    opened: CorpusStore = request.getfixturevalue(f"{request.param}_store")
    return opened
