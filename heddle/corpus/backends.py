"""The kinds of stores that hold a corpus, one entry each; what a kind needs is loaded on use."""

from importlib import import_module
from typing import Final, Protocol, cast

from heddle.core.errors import ConfigError
from heddle.corpus.place import DATABASES, DIRECTORY, CorpusPlace
from heddle.corpus.rows.connection import Database

_MODULES: Final = {
    DIRECTORY: "heddle.corpus.sqlite.database",
    DATABASES[0]: "heddle.corpus.postgres.database",
}


class Backend(Protocol):
    """What a kind of store can do with a place."""

    def open_database(self, place: CorpusPlace, *, create: bool) -> Database:
        """Open what holds a corpus; with `create`, make what is missing.

        Raises:
            InputError: there is no corpus here and `create` is False, or the place is no use.
            ConfigError: another Heddle wrote it, or it lacks what Heddle needs.
            StorageError: it refuses, or it is damaged or not a corpus.
        """
        ...

    def has_corpus(self, place: CorpusPlace) -> bool:
        """Whether a corpus has been made here."""
        ...

    def remove_corpus(self, place: CorpusPlace) -> None:
        """Delete a closed corpus; what else is in its place stays."""
        ...


def backend_of(place: CorpusPlace) -> Backend:
    """Return the kind of store that a place names.

    Raises: ConfigError: the package that this kind needs is not installed.
    """
    try:
        return cast("Backend", import_module(_MODULES[place.scheme]))
    except ModuleNotFoundError as error:
        raise ConfigError(
            f'{place}: this needs the package {error.name}: pip install "heddle[postgres]"'
        ) from error
