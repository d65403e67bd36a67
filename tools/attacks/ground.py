"""What servers under attack need on disk: corpora, a model that writes noise, and a key."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from heddle.server.keys.api_key import ApiKey, KeyScope, digest_of, new_key
from heddle.server.keys.key_file import add_key
from tests.helpers.tiny_server import index_documents, write_documents, write_model


class Ground:
    """A folder in which corpora and the model are made once, each when it is first wanted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._corpora: dict[str, Path] = {}
        self._copies = 0
        self.key = new_key()

    @cached_property
    def model(self) -> Path:
        """The directory of a tiny Llama, whose answers always have all the tokens allowed."""
        return write_model(self._folder / "model")

    @cached_property
    def key_file(self) -> Path:
        """A file with the key, which may do everything for every tenant."""
        path = self._folder / "keys.toml"
        add_key(path, ApiKey("attacker", digest_of(self.key), None, frozenset(KeyScope)))
        return path

    def corpus(self, index_kind: str, at: Path | None = None) -> Path:
        """Return a fresh copy of the corpus, with an index of a kind; `at` = where to."""
        return Path(shutil.copytree(self._indexed(index_kind), at or self.new_folder()))

    def new_folder(self) -> Path:
        """Return a path at which nothing is yet."""
        self._copies += 1
        return self._folder / f"corpus-{self._copies}"

    def _indexed(self, index_kind: str) -> Path:
        if index_kind not in self._corpora:
            documents = write_documents(self._folder / "documents")
            corpus = index_documents([documents], self._folder / f"indexed-{index_kind}")
            if index_kind != "auto":
                words = ("index", documents, "--into", corpus, "--index-kind", index_kind)
                subprocess.run(heddle_command(*words), check=True, stdout=subprocess.DEVNULL)
            self._corpora[index_kind] = corpus
        return self._corpora[index_kind]


def heddle_command(*words: object) -> list[str]:
    """Return the command line of `heddle` with this interpreter."""
    return [sys.executable, "-m", "heddle.cli.main", *map(str, words)]


def authorization(key: str) -> Mapping[str, str]:
    """Return the headers of a client with a key; "" = none."""
    return {"Authorization": f"Bearer {key}"} if key else {}
