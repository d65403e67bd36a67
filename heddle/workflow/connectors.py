"""Connectors: functions that a user supplies, by which a ready-made workflow reaches outside."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from heddle.core.errors import ConfigError, InputError
from heddle.core.passages import OWN_CHUNK_MIN, Passage

Connector = Callable[[str], object]
"""Takes a text, such as the words of a search, and returns a text or a list of results.

A result is a text, or a mapping with `text` and perhaps `title` and `url`.
"""
Connectors = Mapping[str, Connector]
NO_CONNECTORS: Final[Connectors] = MappingProxyType({})
WEB_SEARCH: Final = "web_search"
CONNECTOR_S_MAX: Final = 30.0
RESULTS_MAX: Final = 8
RESULT_CHARS_MAX: Final = 4_000
FIELDS: Final = frozenset({"text", "title", "url"})
_ID_BYTES: Final = 5
_RESULT_MIN: Final = OWN_CHUNK_MIN + (1 << 8 * _ID_BYTES)  # behind the ids of documents


def connector_named(name: str, connectors: Connectors, workflow: str) -> Connector:
    """Return a connector that a workflow needs.

    Raises:
        ConfigError: it isn't there; the message says how to supply it.
    """
    if name not in connectors:
        raise ConfigError(
            f"workflow {workflow!r} needs the connector {name!r}, a function of yours: name it "
            f"with --connector {name}=FILE.py:FUNCTION, or in Python make the workflow with "
            f"heddle.workflow.ready_made.ready_made({workflow!r}, {{{name!r}: function}})"
        )
    return connectors[name]


@dataclass(frozen=True, slots=True)
class Lookup:
    """A tool that asks one connector.

    Args:
        name: the connector's, for errors and titles.
        connector: the function.
        results_max: results that are kept, the first ones.
    """

    name: str
    connector: Connector
    results_max: int = RESULTS_MAX

    def __call__(self, text: str) -> tuple[Passage, ...]:
        """Return the results as passages, each cut to `RESULT_CHARS_MAX` characters.

        Raises:
            InputError: the connector returned something else than results.
        """
        found = self.connector(text)
        results = [found] if isinstance(found, str | Mapping) else found
        if not isinstance(results, list | tuple):
            raise InputError(
                f"connector {self.name!r} must return a text or a list of results, and returned "
                f"{type(found).__name__}"
            )
        return tuple(_passage(one, self.name, text) for one in results[: self.results_max])


def _passage(result: object, name: str, asked: str) -> Passage:
    if isinstance(result, str):
        result = {"text": result}
    fields = result if isinstance(result, Mapping) else {}
    texts = all(isinstance(value, str) for value in fields.values())
    if "text" not in fields or not texts or not set(fields) <= FIELDS:
        raise InputError(
            f"connector {name!r}: a result is a text, or a mapping of texts with the fields text, "
            f"title and url; got {result!r:.60}"
        )
    text, title = fields["text"][:RESULT_CHARS_MAX], fields.get("title") or f"{name}: {asked}"
    # Equal results of two calls are one passage.
    digest = hashlib.blake2b(f"{title}\0{text}".encode(errors="replace"), digest_size=_ID_BYTES)
    chunk_id = _RESULT_MIN + int.from_bytes(digest.digest())
    return Passage(chunk_id, fields.get("url", name), " ".join(title.split()), text)
