"""A tier never exceeds its budget, and the coldest leaves first."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.core.errors import InternalError
from heddle.kv.tier_ledger import TierLedger


def ledger(heats, bytes_max=10):
    tier = TierLedger(bytes_max, heats.__getitem__)
    for key in heats:
        tier.add(key, 2)
    return tier


def nobody(key):
    return False


def test_the_coldest_leave_first_and_only_as_many_as_needed():
    tier = ledger({b"a": 3.0, b"b": 1.0, b"c": 2.0, b"d": 4.0})
    assert tier.victims(2, 9.0, nobody) == ()
    assert tier.victims(3, 9.0, nobody) == (b"b",)
    assert tier.victims(6, 9.0, nobody) == (b"b", b"c")


def test_what_has_warmed_since_takes_its_new_place():
    heats = {b"a": 1.0, b"b": 2.0}
    tier = ledger(heats, bytes_max=4)
    heats[b"a"] = 3.0
    assert tier.victims(2, 9.0, nobody) == (b"b",)


def test_nothing_hotter_and_nothing_held_leaves():
    tier = ledger({b"a": 1.0, b"b": 2.0, b"c": 3.0}, bytes_max=6)
    assert tier.victims(4, 1.5, nobody) is None
    assert tier.victims(2, 9.0, lambda key: key == b"a") == (b"b",)
    assert tier.victims(6, 9.0, lambda key: key == b"a") is None
    assert tier.victims(7, 9.0, nobody) is None
    # What was refused has moved nothing.
    assert tier.victims(6, 9.0, nobody) == (b"a", b"b", b"c")


def test_more_than_fits_is_our_bug():
    tier = ledger({b"a": 1.0}, bytes_max=3)
    with pytest.raises(InternalError):
        tier.add(b"a", 1)
    with pytest.raises(InternalError):
        tier.add(b"b", 2)


@settings(max_examples=100, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4), st.integers(0, 9)), max_size=200))
def test_a_sequence_of_adds_and_uses_matches_a_sorted_list(moves):
    heats: dict[bytes, float] = {}
    sizes: dict[bytes, int] = {}
    tier = TierLedger(12, heats.__getitem__)
    for number, size, heat in moves:
        key = bytes([number])
        if key in sizes:
            heats[key] += heat
            continue
        heats[key] = heat
        victims = tier.victims(size, 9.0, nobody)
        expected, room = [], 12 - sum(sizes.values())
        for cold in sorted(sizes, key=lambda k: heats[k]):
            if room >= size or heats[cold] > 9.0:
                break
            expected.append(cold)
            room += sizes[cold]
        if room < size:
            assert victims is None
            del heats[key]
            continue
        assert victims is not None
        assert [heats[k] for k in victims] == [heats[k] for k in expected]
        for cold in victims:
            tier.remove(cold)
            del sizes[cold]
        tier.add(key, size)
        sizes[key] = size
        assert tier.bytes_used == sum(sizes.values()) <= 12
        assert len(tier) == len(sizes)
        assert all(k in tier and tier.size(k) == s for k, s in sizes.items())
