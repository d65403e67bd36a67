"""Lists in pages: from the newest or the oldest on, behind or before a row that a client names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from heddle.core.errors import InputError
from heddle.corpus.rows.connection import Connection

PAGE_MAX: Final = 100
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which part of a list is wanted; `after` and `before` are ids, of rows that stay out."""

    limit: int = 20
    after: str | None = None
    before: str | None = None
    is_ascending: bool = False


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list, and whether more follows."""

    rows: tuple[T, ...]
    has_more: bool


@dataclass(frozen=True, slots=True)
class Listing:
    """A list in SQL.

    Args:
        select: the statement up to its WHERE.
        table: the one whose `number` orders the rows.
        id_column: the column of `table` that holds their ids.
        where: which rows are in the list.
        values: for the placeholders in `where`.
    """

    select: str
    table: str
    id_column: str
    where: str
    values: tuple[Any, ...]

    def rows(
        self, connection: Connection, wanted: PageRequest
    ) -> tuple[Sequence[tuple[Any, ...]], bool]:
        """Return the rows of a page, and whether more follow.

        Raises:
            InputError: no row of the list has the id that the page begins behind or ends before.
        """
        where, values = self.where, list(self.values)
        bounds = (("after", wanted.after), ("before", wanted.before))
        for name, row_id in bounds:
            if row_id is None:
                continue
            is_above = (name == "after") == wanted.is_ascending
            where += f" AND {self.table}.number {'>' if is_above else '<'} ?"
            values.append(self._number(connection, name, row_id))
        order = "ASC" if wanted.is_ascending else "DESC"
        found = connection.execute(
            f"{self.select} WHERE {where} ORDER BY {self.table}.number {order} LIMIT ?",
            (*values, wanted.limit + 1),
        ).fetchall()
        return found[: wanted.limit], len(found) > wanted.limit

    def _number(self, connection: Connection, name: str, row_id: str) -> int:
        row = connection.execute(
            f"{self.select} WHERE {self.where} AND {self.table}.{self.id_column} = ?",
            (*self.values, row_id),
        ).fetchone()
        if row is None:
            raise InputError(f"{name}: {row_id!r:.60} is not in this list")
        return int(row[0])
