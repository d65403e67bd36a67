"""Filters of a search by files' attributes: comparisons, joined by `and` and `or`."""

import operator
from collections.abc import Callable, Collection, Mapping
from typing import Final

from heddle.core.errors import InputError
from heddle.corpus.vector_stores.records import Attributes

DEPTH_MAX: Final = 8
PARTS_MAX: Final = 64
VALUES_MAX: Final = 1_000  # of `in` and `nin`
Filter = Callable[[Attributes], bool]
Scalar = str | float | bool

_ORDERS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
_TYPES: Final = ("eq", "ne", *_ORDERS, "in", "nin", "and", "or")


def read_filter(given: object, known: Collection[str]) -> Filter:
    """Return a filter as a function of a file's attributes.

    Text compares with text, numbers with numbers, and booleans for equality only; other pairs are
    unequal, in no order. `ne` and `nin` hold for a file without the attribute, the others don't.

    Args:
        given: a comparison with `type`, `key` and `value`, or `and` or `or` with `filters`.
        known: the attributes that files of the store have.

    Raises:
        InputError: it is none, or names an attribute that no file has; the message says where.
    """
    return _Reader(known).read(given, "filters", 1)


class _Reader:
    """Reads one filter. Mutates: `_parts` counts what was read."""

    def __init__(self, known: Collection[str]) -> None:
        self._known, self._parts = known, 0

    def read(self, given: object, where: str, depth: int) -> Filter:
        self._parts += 1
        if self._parts > PARTS_MAX or depth > DEPTH_MAX:
            raise InputError(
                f"{where}: a filter has at most {PARTS_MAX} parts, {DEPTH_MAX} inside each other"
            )
        if not isinstance(given, Mapping):
            raise InputError(f"{where} must be an object with `type`, got {given!r:.40}")
        kind = given.get("type")
        if kind in ("and", "or"):
            return self._joined(given, where, depth, all if kind == "and" else any)
        if kind not in _TYPES:
            raise InputError(f"{where}.type must be one of {', '.join(_TYPES)}, got {kind!r:.40}")
        return self._comparison(given, str(kind), where)

    def _joined(
        self,
        given: Mapping[object, object],
        where: str,
        depth: int,
        joins: Callable[[Collection[bool]], bool],
    ) -> Filter:
        parts = given.get("filters")
        if not isinstance(parts, list) or not parts:
            raise InputError(f"{where}.filters must be a list of at least one filter")
        read = [
            self.read(part, f"{where}.filters[{number}]", depth + 1)
            for number, part in enumerate(parts)
        ]
        return lambda attributes: joins([part(attributes) for part in read])

    def _comparison(self, given: Mapping[object, object], kind: str, where: str) -> Filter:
        key, value = given.get("key"), given.get("value")
        if not isinstance(key, str):
            raise InputError(f"{where}.key must be the name of an attribute, got {key!r:.40}")
        if key not in self._known:
            names = ", ".join(sorted(self._known)) or "none"
            raise InputError(
                f"{where}.key: no file of this store has the attribute {key!r:.64}; there are "
                f"{names:.500}"
            )
        if kind in ("in", "nin"):
            return _membership(key, _values(value, where), is_in=kind == "in")
        if not isinstance(value, str | int | float):
            raise InputError(
                f"{where}.value must be a text, a number, true or false, got {value!r:.40}"
            )
        if kind in _ORDERS:
            return _order(key, value, _ORDERS[kind], where)
        return _membership(key, [value], is_in=kind == "eq")


def _values(given: object, where: str) -> list[Scalar]:
    is_list = isinstance(given, list) and all(
        isinstance(value, str | int | float) for value in given
    )
    if not is_list or not isinstance(given, list) or len(given) > VALUES_MAX:
        raise InputError(f"{where}.value must be a list of up to {VALUES_MAX} texts or numbers")
    return given


def _membership(key: str, values: Collection[Scalar], *, is_in: bool) -> Filter:
    kinds = {(_kind(value), value) for value in values}

    def holds(attributes: Attributes) -> bool:
        own = attributes.get(key)
        return (own is not None and (_kind(own), own) in kinds) == is_in

    return holds


def _order(key: str, value: Scalar, compares: Callable[[float, float], bool], where: str) -> Filter:
    if isinstance(value, bool):
        raise InputError(f"{where}.value: true and false have no order: use eq or ne")

    def holds(attributes: Attributes) -> bool:
        own = attributes.get(key)
        if own is None or _kind(own) is not _kind(value):
            return False
        # Both are texts, or both are numbers.
        return compares(own, value)  # type: ignore[arg-type]

    return holds


def _kind(value: Scalar) -> type:
    """Return what a value compares with: 1 is no true, and 1.0 is 1."""
    if isinstance(value, bool):
        return bool
    return str if isinstance(value, str) else float
