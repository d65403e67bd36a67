"""What is found, where it lies, and who leaves: hits by kind, budgets, pins, loads, writes."""

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.core.errors import InternalError
from heddle.core.kv_reuse import PrimedWith
from heddle.kv.chunk_directory import ChunkDirectory, Tier
from heddle.kv.chunk_key import HitKind, Probe, PromptKeys
from heddle.kv.chunk_record import ChunkRecord

BIG = 1 << 40


def directory(host=BIG, disk=0, half_life_s=10.0):
    return ChunkDirectory(host, disk, half_life_s)


def keys_of(*chunks, prefix=(0,), salt=""):
    keys = PromptKeys("m", salt, prefix)
    for chunk in chunks:
        keys.append((chunk,), source=chunk)
    return keys


def last(keys):
    return len(keys) - 1


def found(it, keys, now_s=0.0, **options):
    return it.find(keys.probes(last(keys), **options), now_s)


def record(name, tokens=1, context=()):
    digest = name.encode() if isinstance(name, str) else name
    source = int.from_bytes(digest, "little")
    return ChunkRecord(digest, b"chunk " + digest, tokens, 0, context=context, sources=(source,))


def keys_probe(name):
    return [Probe(name.encode(), HitKind.EXACT)]


def put_on_disk(it, entry, nbytes=2):
    assert it.restore(entry, nbytes, nbytes)


# --- finding ---------------------------------------------------------------------------------


def test_a_chunk_cached_behind_another_one_is_found_by_its_alias():
    it = directory()
    first = keys_of(1, 3)
    it.add(first.exact_record(1, 2), 5, 0.0, to_disk=False)
    hit = found(it, keys_of(2, 3))  # (S, b, c) after (S, a, c): no path of the paper's meets it
    assert hit is not None
    assert (hit.kind, hit.tier, hit.nbytes) == (HitKind.ALIAS, Tier.HOST, 5)
    assert found(it, first).kind is HitKind.EXACT
    assert found(it, keys_of(2, 1, 3)).kind is HitKind.SUFFIX
    assert found(it, keys_of(3, prefix=(9,))).kind is HitKind.ALIAS
    assert found(it, keys_of(4)) is None
    assert found(it, keys_of(1, 3, salt="t")) is None
    assert it.hits == {
        HitKind.EXACT: 1,
        HitKind.SUFFIX: 1,
        HitKind.CANONICAL: 0,
        HitKind.ALIAS: 2,
        HitKind.MISS: 2,
    }


def test_an_alias_means_the_entry_that_saw_no_other_chunk_then_the_hottest():
    it = directory()
    for before in (1, 2):
        it.add(keys_of(before, 3).exact_record(1, 0), 1, 0.0, to_disk=False)
    found(it, keys_of(2, 3), 5.0)
    assert found(it, keys_of(9, 3), 5.0).record == keys_of(2, 3).exact_record(1, 0)
    canonical = keys_of(3, prefix=(9,)).canonical_record(0, 0)
    it.add(canonical, 1, 0.0, to_disk=False)
    assert found(it, keys_of(9, 3), 5.0).record == canonical


def test_primed_kv_is_only_for_those_who_ask():
    it = directory()
    keys = keys_of(1, 2)
    primed = keys.primed_record(1, 0)
    it.add(primed, 1, 0.0, to_disk=False)
    assert found(it, keys) is None
    assert found(it, keys, primed=PrimedWith.PRECEDING).record == primed
    assert found(it, keys_of(1, 2, prefix=(5,)), primed=PrimedWith.PRECEDING).kind is HitKind.ALIAS
    it.add(keys.canonical_record(1, 0), 1, 0.0, to_disk=False)
    assert found(it, keys, primed=PrimedWith.PRECEDING).record == primed
    it.add(keys.exact_record(1, 0), 1, 0.0, to_disk=False)
    assert found(it, keys, primed=PrimedWith.PRECEDING).kind is HitKind.EXACT


@settings(max_examples=60, derandomize=True)
@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.lists(st.integers(0, 4), min_size=1, max_size=5)),
        max_size=25,
    )
)
def test_alternative_path_matches_a_reference_dict(prompts):
    """The reference keeps tuples of chunks and knows no digests."""
    it = directory()
    stored: set[tuple[str, tuple[int, ...]]] = set()
    expected = Counter()
    for salt, chunks in prompts:
        keys = PromptKeys("m", salt, (0,))
        for i, chunk in enumerate(chunks):
            keys.append((chunk,))
            paths = [(salt, tuple(chunks[j : i + 1])) for j in range(i + 1)]
            met = next((j for j, path in enumerate(paths) if path in stored), None)
            if met == 0:
                kind = HitKind.EXACT
            elif met is not None:
                kind = HitKind.CANONICAL if met == i else HitKind.SUFFIX
            else:
                is_known = any(s == salt and path[-1] == chunk for s, path in stored)
                kind = HitKind.ALIAS if is_known else HitKind.MISS
            expected[kind] += 1
            hit = it.find(keys.probes(i), 0.0)
            assert (hit.kind if hit else HitKind.MISS) is kind
            if hit is None:
                it.add(keys.exact_record(i, 0), 1, 0.0, to_disk=False)
                stored.add(paths[0])
    assert {kind: count for kind, count in it.hits.items() if count} == dict(expected)
    it.check()


# --- heat, budgets, pins ---------------------------------------------------------------------


def test_what_is_used_stays_and_what_nobody_wants_leaves():
    it = directory(host=4)
    for name in "ab":
        it.add(record(name), 2, 0.0, to_disk=False)
    it.find(keys_probe("a"), 1.0)
    admission = it.add(record("c"), 2, 1.0, to_disk=False)
    assert admission.evicted == (b"b",)
    assert b"b" not in it
    assert it.evictions == {Tier.HOST: 1, Tier.DISK: 0}
    assert it.uses(b"a", 1.0) > it.uses(b"c", 1.0) == pytest.approx(1.0)


def test_a_newcomer_never_drives_out_what_is_hotter():
    it = directory(host=2)
    it.add(record("a"), 2, 0.0, to_disk=False)
    it.find(keys_probe("a"), 0.0)
    assert it.add(record("b"), 2, 1.0, to_disk=False) is None
    assert b"b" not in it
    assert it.add(record("c"), 2, 60.0, to_disk=False).evicted == (b"a",)  # that has cooled


def test_too_large_for_the_tier_is_refused_without_moving_anything():
    it = directory(host=4)
    it.add(record("a"), 2, 0.0, to_disk=False)
    assert it.add(record("b"), 5, 0.0, to_disk=False) is None
    assert it.tier_of(b"a") is Tier.HOST
    it.check()


def test_a_pinned_entry_stays_until_its_last_release():
    it = directory(host=2)
    it.add(record("a"), 2, 0.0, to_disk=False)
    it.pin(b"a")
    it.pin(b"a")
    it.release(b"a")
    assert it.add(record("b"), 2, 99.0, to_disk=False) is None
    it.release(b"a")
    assert it.add(record("b"), 2, 99.0, to_disk=False).evicted == (b"a",)
    with pytest.raises(InternalError):
        it.release(b"a")


def test_lookups_do_not_pin():
    it = directory(host=2)
    it.add(record("a"), 2, 0.0, to_disk=False)
    assert it.find(keys_probe("a"), 0.0) is not None
    assert it.add(record("b"), 2, 99.0, to_disk=False).in_host


# --- loading and writing ---------------------------------------------------------------------


def test_a_loading_entry_lies_on_disk_until_it_is_read():
    it = directory(host=2, disk=9)
    put_on_disk(it, record("a"))
    plan = it.begin_load(b"a")
    assert it.host.bytes_used == 2  # reserved at once
    assert (it.tier_of(b"a"), it.load_of(b"a")) == (Tier.DISK, plan.ticket)
    assert it.add(record("b"), 2, 99.0, to_disk=False) is None  # nor is it driven out
    assert it.end_load(plan.ticket, is_read=True)
    assert (it.tier_of(b"a"), it.load_of(b"a")) == (Tier.HOST, None)
    assert b"a" in it.disk


def test_a_load_drives_out_what_is_hotter_but_nothing_pinned():
    it = directory(host=2, disk=9)
    it.add(record("a"), 2, 50.0, to_disk=False)
    put_on_disk(it, record("b"))
    it.pin(b"a")
    assert it.begin_load(b"b") is None
    assert it.load_of(b"b") is None
    it.release(b"a")
    assert it.begin_load(b"b").evicted == (b"a",)


def test_a_failed_load_takes_its_entry_along():
    it = directory(host=2, disk=9)
    put_on_disk(it, record("a"))
    assert not it.end_load(it.begin_load(b"a").ticket, is_read=False)
    assert b"a" not in it
    assert it.host.bytes_used == it.disk.bytes_used == 0


def test_a_load_that_was_forgotten_meanwhile_brings_nothing_back():
    it = directory(host=2, disk=9)
    put_on_disk(it, record("a"))
    plan = it.begin_load(b"a")
    it.forget(record("a").sources)
    put_on_disk(it, record("a"))  # the same key, another entry
    assert not it.end_load(plan.ticket, is_read=True)
    assert it.tier_of(b"a") is Tier.DISK
    it.check()


def test_an_entry_is_on_disk_when_its_file_is():
    it = directory(host=2, disk=9)
    admission = it.add(record("a"), 2, 0.0, to_disk=True)
    assert admission.to_disk
    it.add(record("b"), 2, 1.0, to_disk=False)  # drives it out of host memory
    assert (b"a" in it, it.tier_of(b"a")) == (True, None)
    assert it.find(keys_probe("a"), 1.0) is None
    assert it.begin_write(admission.ticket, 3) == ()
    assert it.tier_of(b"a") is None
    it.end_write(admission.ticket, is_written=True)
    assert it.tier_of(b"a") is Tier.DISK
    assert it.disk.bytes_used == 3


def test_a_write_that_fails_leaves_the_host_copy():
    it = directory(host=4, disk=9)
    a = it.add(record("a"), 2, 0.0, to_disk=True)
    it.begin_write(a.ticket, 3)
    it.end_write(a.ticket, is_written=False)
    assert (it.tier_of(b"a"), it.disk.bytes_used) == (Tier.HOST, 0)
    again = it.add(record("a"), 2, 0.0, to_disk=True)
    assert (again.in_host, again.to_disk) == (False, True)  # offered again, written after all


def test_a_write_drives_out_the_coldest_file_but_none_in_use():
    it = directory(host=9, disk=4)
    for name in "ab":
        put_on_disk(it, record(name))
    it.pin(b"a")
    ticket = it.add(record("c"), 2, 1.0, to_disk=True).ticket
    assert it.begin_write(ticket, 2) == (b"b",)
    it.end_write(ticket, is_written=True)
    other = it.add(record("d"), 2, 1.0, to_disk=True).ticket
    assert it.begin_write(other, 4) is None
    it.check()


def test_a_file_that_is_being_written_is_not_driven_out():
    it = directory(host=9, disk=4)
    tickets = [it.add(record(name), 2, 1.0, to_disk=True).ticket for name in "ab"]
    assert it.begin_write(tickets[0], 3) == ()
    assert it.begin_write(tickets[1], 3) is None
    it.end_write(tickets[0], is_written=True)
    assert it.begin_write(tickets[1], 3) == (b"a",)


def test_an_entry_on_disk_that_is_computed_again_enters_host_memory():
    it = directory(host=9, disk=9)
    put_on_disk(it, record("a"))
    admission = it.add(record("a"), 2, 0.0, to_disk=True)
    assert (admission.in_host, admission.to_disk) == (True, False)
    assert it.tier_of(b"a") is Tier.HOST


def test_the_first_entry_of_a_key_stays():
    it = directory()
    it.add(record("a"), 2, 0.0, to_disk=False)
    assert it.add(record("a"), 2, 0.0, to_disk=False) is None
    assert it.host.bytes_used == 2


def test_tensors_of_another_entry_do_not_replace_those_on_disk():
    it = directory(disk=9)
    put_on_disk(it, record("a"))
    assert it.add(record("a", context=(b"other",)), 2, 0.0, to_disk=True) is None
    assert it.tier_of(b"a") is Tier.DISK


def test_primed_kv_takes_the_place_of_what_saw_other_neighbours():
    it = directory(host=9, disk=9)
    old, new = keys_of(1, 2, 5).primed_record(2, 7), keys_of(2, 3, 5).primed_record(2, 7)
    assert old.key == new.key
    put_on_disk(it, old)
    assert (it.keeps(old), it.keeps(new)) == (True, False)
    admission = it.add(new, 3, 0.0, to_disk=True)
    assert (admission.in_host, admission.to_disk) == (True, True)
    assert (it.keeps(old), it.keeps(new)) == (False, True)  # on its way already
    assert it.begin_write(admission.ticket, 4) == ()
    it.end_write(admission.ticket, is_written=True)
    assert it.disk.bytes_used == 4
    assert it.forget([1]) == ()
    assert it.forget([3]) == (new.key,)
    it.check()


def test_what_is_only_in_host_memory_is_not_kept():
    it = directory()
    it.add(record("a"), 2, 0.0, to_disk=False)
    assert not it.keeps(record("a"))
    ticket = it.add(record("b"), 2, 0.0, to_disk=True).ticket
    assert it.keeps(record("b"))
    it.end_write(ticket, is_written=False)
    assert not it.keeps(record("b"))


def test_a_restored_entry_waits_for_room_and_drives_nothing_out():
    it = directory(disk=3)
    assert it.restore(record("a"), 2, 2)
    assert not it.restore(record("b"), 2, 2)
    assert it.uses(b"a", 0.0) == 0.0


# --- forgetting ------------------------------------------------------------------------------


def test_forgetting_a_chunk_takes_all_that_has_seen_it():
    it = directory(disk=9)
    keys = keys_of(1, 2, 3)
    canonical = [keys_of(i).canonical_record(0, 0) for i in (1, 2, 3)]
    behind = keys.exact_record(1, 0)
    primed = keys.primed_record(2, 0)
    for entry in (*canonical, behind, primed):
        it.add(entry, 1, 0.0, to_disk=False)
    it.pin(primed.key)
    assert set(it.forget([1, 7])) == {canonical[0].key, behind.key, primed.key}
    assert it.forget([1]) == ()
    assert found(it, keys, primed=PrimedWith.PRECEDING).record == canonical[2]
    assert len(it) == 2
    it.check()
    it.release(primed.key)  # a pin outlives its entry


# --- everything at once ----------------------------------------------------------------------


@dataclass
class Model:
    """What a random run has under way."""

    loads: list = field(default_factory=list)
    writes: list = field(default_factory=list)
    pins: Counter = field(default_factory=Counter)
    finds: int = 0


names = st.integers(0, 7)
writing = ["write", "written", "unwritten"]
kinds = st.sampled_from(
    ["add", "find", "load", "loaded", "lost", *writing, "pin", "release", "forget"]
)
moves = st.lists(st.tuples(kinds, names, st.integers(1, 4)), max_size=120)


@settings(max_examples=200, derandomize=True)
@given(moves)
def test_budgets_hold_the_pinned_stay_and_counts_add_up(steps):
    it = directory(host=8, disk=10)
    model = Model()
    sizes: dict[bytes, int] = {}
    for now, (move, number, size) in enumerate(steps):
        key = b"%d" % number
        held = {
            (tier, k)
            for tier, ledger in ((Tier.HOST, it.host), (Tier.DISK, it.disk))
            for k in sizes
            if k in ledger and (model.pins[k] or it.load_of(k))
        }
        gone = _move(it, model, move, key, sizes.setdefault(key, size), float(now))
        it.check()
        assert sum(it.hits.values()) == model.finds
        for tier, k in held:
            ledger = it.host if tier is Tier.HOST else it.disk
            assert k in ledger or k in gone, f"{k} left {tier} while it was held"
        assert it.host.bytes_used == sum(sizes[k] for k in sizes if k in it.host)


def _move(it, model, move, key, size, now_s):
    """Make one move; returns the keys that may be gone by intention."""
    if move == "add":
        admission = it.add(record(key), size, now_s, to_disk=True)
        if admission and admission.to_disk:
            model.writes.append((admission.ticket, size, False))
    elif move == "find":
        model.finds += 1
        it.find(keys_probe(key.decode()), now_s)
    elif move == "load" and it.tier_of(key) is Tier.DISK and not it.load_of(key):
        plan = it.begin_load(key)
        if plan:
            model.loads.append(plan.ticket)
    elif move in ("loaded", "lost") and model.loads:
        ticket = model.loads.pop(0)
        it.end_load(ticket, is_read=move == "loaded")
        return {ticket.key} if move == "lost" else set()
    elif move == "write" and model.writes and not model.writes[0][2]:
        ticket, size, _ = model.writes[0]
        if it.begin_write(ticket, size) is None:
            it.end_write(ticket, is_written=False)
            del model.writes[0]
        else:
            model.writes[0] = (ticket, size, True)
    elif move in ("written", "unwritten") and model.writes and model.writes[0][2]:
        ticket, *_ = model.writes.pop(0)
        it.end_write(ticket, is_written=move == "written")
        return {ticket.key} if move == "unwritten" else set()
    elif move == "pin":
        model.pins[key] += 1
        it.pin(key)
    elif move == "release" and model.pins[key]:
        model.pins[key] -= 1
        it.release(key)
    elif move == "forget":
        return set(it.forget(record(key).sources))
    return set()
