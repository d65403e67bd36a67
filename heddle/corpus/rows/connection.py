"""What the tables of a corpus are written and read through, whichever database holds them.

Statements are SQL that SQLite and PostgreSQL understand alike, with `?` for each value. Where the
two differ, this port has a method, and `IDS` stands for a list of ids.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from heddle.core.search_scope import SearchScope
from heddle.corpus.vector_index import VectorIndex

IDS: Final = "(SELECT value FROM json_each(?))"
"""Ids as one value, `id_list` of them: `WHERE chunk_id IN {IDS}`."""


class Rows(Protocol):
    """What a statement gives."""

    @property
    def rowcount(self) -> int:
        """How many rows it has inserted, changed or deleted."""
        ...

    def fetchone(self) -> Any:  # noqa: ANN401 - a row, or None
        """Return the next row; None = there is none."""
        ...

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection to the tables, which one thread uses at a time."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Rows:
        """Run one statement."""
        ...

    def executemany(self, statement: str, values: Iterable[Sequence[Any]], /) -> object:
        """Run one statement for each row of values."""
        ...

    def insert_rows(self, table: str, columns: str, rows: Iterable[Sequence[Any]]) -> None:
        """Insert many rows at once; `columns` are names with commas between."""
        ...

    def index_words(self, version: int, texts: Iterable[tuple[int, str, str]]) -> None:
        """Make the words of a new version's chunks searchable: position, title and text of each."""
        ...

    def rebuild_words(self) -> None:
        """Index the words of every chunk anew: texts left that were not what had been indexed."""
        ...


class Claim(Protocol):
    """The sole right to a task."""

    @property
    def is_held(self) -> bool:
        """Whether it still is: False where others may have it. It is released all the same."""
        ...

    def release(self) -> None:
        """Let others have it."""
        ...


class Database(Protocol):
    """The database of one corpus, for several threads.

    Raises, from every method: StorageError when it refuses; Unreachable when it isn't there.
    """

    @property
    def name(self) -> str:
        """What people call it: a directory, or an address without its password."""
        ...

    @property
    def origin(self) -> str:
        """Names the tables as they were first seen here: those of a copy have another name.

        "" = copies have the same.
        """
        ...

    def within(self, answer_s: float, /) -> "Database":
        """Return the same database for reads that give up when an answer takes `answer_s`.

        Close both. A file is not waited for: its answers need no other process.
        """
        ...

    @property
    def bytes_on_disk(self) -> int:
        """Its size on the disk."""
        ...

    @property
    def vector_index(self) -> VectorIndex | None:
        """Its own index of the vectors; None = this kind of database can't have one."""
        ...

    def read(self, tenant: str | None = None) -> AbstractContextManager[Connection]:
        """Give a connection that reads; each statement sees the newest commit.

        Args:
            tenant: where the database can, it shows rows of this tenant and of no tenant only;
                None = all rows.
        """
        ...

    def write(self) -> AbstractContextManager[Connection]:
        """Run what is inside as one transaction: committed and on the disk, or undone.

        One write goes on at a time, over all processes: revisions are committed in their order.
        """
        ...

    def best_by_words(
        self, text: str, limit: int, scope: SearchScope, is_cancelled: Callable[[], bool]
    ) -> list[int]:
        """Return the live chunks in a scope that share words with a text, by BM25, best first.

        Raises: Cancelled: `is_cancelled` has become true.
        """
        ...

    def revision(self) -> int:
        """Return how many changes a search could see have been committed; each search asks."""
        ...

    def ask_revision(self) -> Callable[[], int] | None:
        """Ask for the revision, and don't wait.

        Returns: what waits for the answer, which is not older than the question; None = asking
            ahead would gain nothing, and nothing was asked.
        """
        ...

    def subscribe(self, on_change: Callable[[], None]) -> None:
        """Call `on_change`, from another thread, soon after other processes have committed.

        It is a hint, which may be missing or come twice: the revision says what there is.
        """
        ...

    def claim(self, task: str) -> "Claim | None":
        """Return the sole right to a task, over all servers of this corpus; None = another has it.

        It ends with `release`, with the process, or with the database's session.
        """
        ...

    def structure_problems(self) -> tuple[str, ...]:
        """Return what the database finds wrong with its own files."""
        ...

    def close(self) -> None:
        """Close the connections of all threads; closing twice is fine."""
        ...


def id_list(values: Iterable[int]) -> str:
    """Return ids as the value that `IDS` stands for."""
    return json.dumps(list(values))
