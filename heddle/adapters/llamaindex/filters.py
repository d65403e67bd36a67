"""LlamaIndex's metadata filters as what a search of Heddle's asks for."""

from collections.abc import Iterator
from typing import Any, Final

from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

from heddle.core.errors import InputError

FIELD: Final = "filters"


def where_of_filters(filters: MetadataFilters | None) -> dict[str, object] | None:
    """Return what documents must have: for each key the values of which one is enough.

    Args:
        filters: comparisons with `==` and `in`, joined by `and`; None = every document will do.

    Raises:
        InputError: it compares in another way; the message names the operator.
    """
    if filters is None or not filters.filters:
        return None
    where: dict[str, object] = {}
    for one in _comparisons(filters):
        if one.key in where:
            raise InputError(
                f"{FIELD}: {one.key!r} is compared twice: give its values in one 'in'", param=FIELD
            )
        where[one.key] = _value(one)
    return where


def _comparisons(filters: MetadataFilters) -> Iterator[MetadataFilter]:
    if filters.condition not in (None, FilterCondition.AND):
        raise InputError(
            f"{FIELD}: comparisons are joined by 'and'; {filters.condition.value!r} can't be "
            "searched for",
            param=FIELD,
        )
    for one in filters.filters:
        if isinstance(one, MetadataFilters):
            yield from _comparisons(one)
        else:
            yield one


def _value(one: MetadataFilter) -> Any:
    if one.operator not in (FilterOperator.EQ, FilterOperator.IN):
        raise InputError(
            f"{FIELD}: operator {one.operator.value!r} can't be searched for: use '==' or 'in'",
            param=FIELD,
        )
    return one.value
