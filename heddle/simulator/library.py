"""Whose the simulated chunks are, and what shelf they stand on: both follow from their ids."""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import ConfigError
from heddle.core.search_scope import SearchScope

OWNERS: Final = ("", "a", "", "b", "")  # chunk i is of OWNERS[i % 5]; "" = everybody's
SHELVES: Final = 3
SHELF: Final = "shelf"  # the one key of metadata: chunk i stands on shelf i % 3
TENANT_OF_FEW: Final = "a"  # its searches compare each chunk; those of others look through lists


def owner_of(chunk_id: int) -> str:
    """Return the tenant of a chunk; "" = everybody's."""
    return OWNERS[chunk_id % len(OWNERS)]


def may_find(scope: SearchScope, chunk_id: int, *, has_owners: bool) -> bool:
    """Whether a search in this scope may find a chunk.

    Raises:
        ConfigError: the scope asks for metadata that simulated chunks don't have.
    """
    if has_owners and owner_of(chunk_id) not in ("", scope.tenant):
        return False
    for key, values in scope.where:
        if key != SHELF:
            raise ConfigError(f"simulated chunks have no {key!r}: filter by {SHELF!r}")
        if str(chunk_id % SHELVES) not in values:
            return False
    return True


def found_by(
    scope: SearchScope, chunk_ids: Iterable[int], *, has_owners: bool
) -> NDArray[np.int64]:
    """Return those of some chunks that a search in this scope may find."""
    found = [i for i in chunk_ids if may_find(scope, i, has_owners=has_owners)]
    return np.array(found, np.int64)
