"""The table of single values: the corpus's revision, and what was said about it once."""

from heddle.corpus.records import EmbedderStamp
from heddle.corpus.rows.connection import Connection

_EMBEDDER_KEYS = ("embedder_model", "embedder_dims", "embedder_dtype")


def number(connection: Connection, query: str) -> int:
    """Return the whole number that a query gives."""
    return int(connection.execute(query).fetchone()[0])


def revision(connection: Connection) -> int:
    """Return how many changes a search could see have been committed."""
    return number(connection, "SELECT value FROM meta WHERE key = 'revision'")


def dims(connection: Connection) -> int:
    """Return the dimensions of the vectors; 0 while no embedder is set."""
    stamp = embedder(connection)
    return 0 if stamp is None else stamp.dims


def embedder(connection: Connection) -> EmbedderStamp | None:
    """Return which model the vectors come from; None while none is set."""
    # One statement, so that another process can't set the embedder between two of its values.
    model, length, dtype = connection.execute(
        "SELECT " + ", ".join(["(SELECT value FROM meta WHERE key = ?)"] * 3), _EMBEDDER_KEYS
    ).fetchone()
    return None if model is None else EmbedderStamp(str(model), int(length), str(dtype))


def set_embedder(connection: Connection, stamp: EmbedderStamp) -> None:
    """Say which model the vectors come from."""
    values: tuple[str | int, ...] = (stamp.model, stamp.dims, stamp.dtype)
    for key, value in zip(_EMBEDDER_KEYS, values, strict=True):
        write(connection, key, value)


def read(connection: Connection, key: str) -> str | None:
    """Return the value of a key as text; None = there is none."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def write(connection: Connection, key: str, value: str | int) -> None:
    """Set the value of a key."""
    connection.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?)"
        " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, str(value)),
    )
