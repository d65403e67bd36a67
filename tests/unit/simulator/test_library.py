"""Simulated chunks have owners and shelves, and a scope picks the right ones."""

import pytest

from heddle.core.errors import ConfigError
from heddle.core.search_scope import SearchScope
from heddle.simulator.library import OWNERS, SHELF, found_by, owner_of

CHUNKS = range(15)


@pytest.mark.parametrize("tenant", sorted(set(OWNERS)))
def test_a_tenant_finds_its_own_and_everybody_s(tenant):
    found = found_by(SearchScope(tenant), CHUNKS, has_owners=True).tolist()
    assert found == [i for i in CHUNKS if owner_of(i) in ("", tenant)]
    assert len(found) < len(CHUNKS)


def test_without_owners_all_are_found():
    assert found_by(SearchScope("a"), CHUNKS, has_owners=False).tolist() == list(CHUNKS)


def test_a_filter_picks_shelves():
    scope = SearchScope(where=((SHELF, ("0", "2")),))
    assert {i % 3 for i in found_by(scope, CHUNKS, has_owners=False).tolist()} == {0, 2}


def test_other_metadata_is_refused():
    with pytest.raises(ConfigError, match=r"'colour'.*'shelf'"):
        found_by(SearchScope(where=(("colour", ("red",)),)), CHUNKS, has_owners=False)
