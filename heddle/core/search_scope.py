"""Which documents a search may find: those a tenant may see, and of these what metadata picks."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from heddle.core.errors import InputError
from heddle.core.texts.text_check import check_unicode

PAIRS_MAX: Final = 64
CHARS_MAX: Final = 512
WHERE_PAIRS_MAX: Final = 10_000  # a filter names documents, of which there are many

NO_PASSAGE: Final = "where: no passage has"
"""Begins the error of a search whose `where` fits nothing: engines report words alone."""

Metadata = tuple[tuple[str, str], ...]
"""Pairs of a key and one of its values, sorted, each once."""

Where = tuple[tuple[str, tuple[str, ...]], ...]
"""Keys, sorted, each with the values of which a document must have one."""


class SearchScope(NamedTuple):
    """What a search may find: the documents of `tenant`, and of these those that fit `where`.

    Documents without a tenant (tenant "") are found by every tenant.
    """

    tenant: str = ""
    where: Where = ()

    def __str__(self) -> str:
        """Say what is looked for, as a user has written it."""
        none = "(a value that the workflow's filter and the request's both allow)"
        return ", ".join(f"{key}={' or '.join(values) or none}" for key, values in self.where)


EVERYBODYS: Final = SearchScope()


def metadata_of(given: object, field: str = "metadata", *, pairs_max: int = PAIRS_MAX) -> Metadata:
    """Return metadata as it is stored and compared: a list is several values of one key.

    Numbers and booleans become text as JSON writes them.

    Raises:
        InputError: it is no mapping of such values, or too large; the message begins with `field`.
    """
    if not isinstance(given, Mapping):
        raise InputError(f"{field} must be a mapping of keys to values, got {given!r:.40}")
    pairs = {
        (_key(key, field), value)
        for key, held in given.items()
        for value in _values(key, held, field)
    }
    if len(pairs) > pairs_max:
        raise InputError(f"{field} has {len(pairs)} values; at most {pairs_max} are taken")
    return tuple(sorted(pairs))


def where_of(given: object) -> Where:
    """Return a filter: for each key a value, or a list of which one is enough.

    Raises:
        InputError: it is no mapping of such values, or a list is empty.
    """
    found: dict[str, list[str]] = {}
    for key, value in metadata_of(given, "where", pairs_max=WHERE_PAIRS_MAX):
        found.setdefault(key, []).append(value)
    assert isinstance(given, Mapping), "metadata_of lets nothing else pass"
    for key in given:
        if key not in found:
            raise InputError(f"where: {key!r} has no value; name one, or leave the key out")
    return tuple((key, tuple(values)) for key, values in found.items())


def both(one: Where, other: Where) -> Where:
    """Return the filter that asks for what each of two asks for.

    Where both name a key, what they have in common is asked for, which may be nothing.
    """
    found = dict(one)
    for key, values in other:
        found[key] = tuple(v for v in found[key] if v in values) if key in found else values
    return tuple(sorted(found.items()))


def no_passage_words(error: InputError) -> str:
    """Return an error's words if they say that a search's `where` fits nothing, else ""."""
    _, begin, rest = str(error).partition(NO_PASSAGE)
    return begin + rest


def _key(key: object, field: str) -> str:
    if not isinstance(key, str) or not key:
        raise InputError(f"{field}: a key must be a string that is not empty, got {key!r:.40}")
    return _short(key, field)


def _values(key: object, held: object, field: str) -> Iterable[str]:
    many = held if isinstance(held, Sequence) and not isinstance(held, str | bytes) else (held,)
    for value in many:
        if isinstance(value, bool):
            yield "true" if value else "false"
        elif isinstance(value, str | int | float):
            yield _short(str(value), field)
        else:
            raise InputError(
                f"{field}: {key!r:.40} must have a text, a number, true or false, or a list of "
                f"them, got {value!r:.40}"
            )


def _short(text: str, field: str) -> str:
    if len(text) > CHARS_MAX:
        raise InputError(f"{field}: {text[:40]!r}... is longer than {CHARS_MAX} characters")
    check_unicode(text, field)
    return text
