"""Where a corpus is: a directory, or the URL of a database with a work directory on this node."""

import os
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import Final, Self, TypeAlias

from heddle.core.errors import ConfigError

DIRECTORY: Final = "directory"
DATABASES: Final = ("postgresql", "postgres")
WORK_VARIABLE: Final = "HEDDLE_WORK"
DIGEST_CHARS: Final = 16
SECRETS: Final = ("password", "sslpassword")  # of a URL's query


@dataclass(frozen=True, slots=True)
class CorpusPlace:
    """Where a corpus is.

    Args:
        scheme: which kind of store holds it.
        name: what people call it. It never has a password.
        url: what opens it.
        work: the directory on this node where all that is derived from it lies: indexes, chunk
            KV, the file that names a running server. For a corpus in a directory, this directory.
    """

    scheme: str
    name: str
    url: str = field(repr=False)
    work: Path

    @classmethod
    def of(cls, where: "str | Path | CorpusPlace") -> Self:
        """Return the place that a path or a URL means.

        Raises:
            ConfigError: the URL's password has signs that a URL can't have as they are.

        Example:
            from heddle.corpus.place import CorpusPlace

            print(CorpusPlace.of("postgresql://anna:secret@db.example/docs"))
            # postgresql://anna@db.example/docs
        """
        if isinstance(where, cls):
            return where
        if not is_database(where):
            directory = Path(str(where))
            return cls(DIRECTORY, str(directory), str(directory), directory)
        shown, query = _without_password(str(where))
        digest = sha256(f"{shown}?{query}".encode()).hexdigest()[:DIGEST_CHARS]
        return cls(DATABASES[0], shown, str(where), _work_root() / digest)

    @property
    def is_remote(self) -> bool:
        """Whether it is a server's, which may be away while this node is well."""
        return self.scheme != DIRECTORY

    @property
    def typed(self) -> str:
        """What opens it in a shell's command, but for passwords: those are given in other ways."""
        if not self.is_remote:
            return quote(self.name)
        shown, query = _without_password(self.url)
        kept = [one for one in query.split("&") if one.partition("=")[0] not in SECRETS]
        return quote(f"{shown}?{'&'.join(kept)}" if any(kept) else shown)

    def __str__(self) -> str:
        return self.name


Where: TypeAlias = str | Path | CorpusPlace
"""A directory, a URL, or the place itself."""


def is_database(where: object) -> bool:
    """Whether a text is the URL of a database, and no path."""
    return isinstance(where, str) and where.partition("://")[0] in DATABASES and "://" in where


def _without_password(url: str) -> tuple[str, str]:
    """Return a database's URL without password and query, and the query, as libpq reads them.

    User and password end at the first `@` before a `/`, and may hold `?` and `#`. urllib lets them
    end there, and would take the password for the host.

    Raises: ConfigError: another `@` shows that the password isn't where libpq looks for it.
    """
    rest = url.partition("://")[2]
    before, at, behind = rest.partition("@")
    login, rest = (before, behind) if at and "/" not in before else ("", rest)
    address, _, query = rest.partition("?")
    if "@" in address:
        raise ConfigError(
            "the database's URL: write an @ of its password as %40, and a / as %2F; or give the"
            " password by PGPASSWORD or ~/.pgpass"
        )
    user = login.partition(":")[0]
    return f"{DATABASES[0]}://{f'{user}@' if user else ''}{address}", query


def _work_root() -> Path:
    """Return where the work directories of databases lie on this node."""
    given = os.environ.get(WORK_VARIABLE, "")
    if given:
        return Path(given)
    cache = os.environ.get("XDG_CACHE_HOME", "") or str(Path.home() / ".cache")
    return Path(cache) / "heddle" / "corpora"
