"""A corpus's rows as SQL sees them, beside the store that is open: to read them, or damage them."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from heddle.corpus.backends import backend_of
from heddle.corpus.place import CorpusPlace, Where
from heddle.corpus.rows.connection import Connection
from heddle.corpus.store import CorpusStore


@contextmanager
def rows_of(corpus: CorpusStore | Where) -> Iterator[Connection]:
    """Give a connection of the test's own, in one transaction that ends with the block."""
    place = corpus.place if isinstance(corpus, CorpusStore) else CorpusPlace.of(corpus)
    with (
        closing(backend_of(place).open_database(place, create=False)) as database,
        database.write() as connection,
    ):
        yield connection
