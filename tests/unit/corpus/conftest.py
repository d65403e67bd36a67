"""Fixtures of the corpus tests: most of them run over each kind of store."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from heddle.corpus.place import CorpusPlace
from heddle.corpus.sqlite.database import Database
from heddle.corpus.store import CorpusStore
from tests.helpers.corpus_rows import rows_of
from tests.helpers.postgres import Databases, databases, name_of
from tests.unit.corpus.corpora import STAMP

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
        with rows_of(made) as connection:  # tests damage vectors by SQLite's name for it
            connection.execute("SET LOCAL ROLE postgres")
            connection.execute(ZERO_BLOB)
    return name_of(url)


@pytest.fixture
def sqlite_database(tmp_path: Path) -> Iterator[Database]:
    """What holds `sqlite_store`: SQLite keeps some limits for each connection."""
    with closing(Database.open(tmp_path / "corpus", create=True)) as opened:
        yield opened


@pytest.fixture
def sqlite_store(sqlite_database: Database) -> CorpusStore:
    opened = CorpusStore(sqlite_database, CorpusPlace.of(sqlite_database.name))
    opened.set_embedder(STAMP)
    return opened


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
