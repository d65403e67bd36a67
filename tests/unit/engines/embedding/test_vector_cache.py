"""Bounded, by use, and never shared between tenants, models or types."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from heddle.engines.embedding.vector_cache import ENTRY_BYTES, CachedVector, VectorCache


def vector(value: float = 1.0) -> CachedVector:
    return CachedVector(np.full(4, value, np.float32), 3, False)


ENTRY = ENTRY_BYTES + 16


def test_a_vector_comes_back_only_to_its_tenant() -> None:
    cache = VectorCache("m", "float32", 10 * ENTRY)
    cache.put("text", "a", vector())
    assert cache.get("text", "b") is None
    found = cache.get("text", "a")
    assert found is not None
    np.testing.assert_array_equal(found.values, 1.0)
    assert (cache.hits, cache.misses) == (1, 1)


def test_a_tenants_name_is_no_part_of_the_text() -> None:
    cache = VectorCache("m", "float32", 10 * ENTRY)
    cache.put("x", "t", vector())
    assert cache.get("", "tx") is None
    assert cache.get("tx", "") is None


def test_the_least_recently_used_is_forgotten() -> None:
    cache = VectorCache("m", "float32", 2 * ENTRY)
    cache.put("a", "", vector())
    cache.put("b", "", vector())
    cache.get("a", "")
    cache.put("c", "", vector())
    assert [name for name in "abc" if cache.get(name, "")] == ["a", "c"]


@given(st.lists(st.text(max_size=3)), st.integers(0, 5))
def test_it_never_takes_more_than_it_may(texts: list[str], entries: int) -> None:
    cache = VectorCache("m", "float32", entries * ENTRY)
    for text in texts:
        cache.put(text, "", vector())
        assert cache.bytes_used == len(cache) * ENTRY <= cache.bytes_max


def test_what_is_kept_is_a_copy() -> None:
    cache = VectorCache("m", "float32", ENTRY)
    given_vector = vector()
    cache.put("a", "", given_vector)
    given_vector.values[:] = 9
    found = cache.get("a", "")
    assert found is not None
    assert found.values[0] == 1


def test_lone_surrogates_are_keys_too() -> None:
    cache = VectorCache("m", "float32", ENTRY)
    cache.put("\ud800", "", vector())
    assert cache.get("\ud800", "") is not None
