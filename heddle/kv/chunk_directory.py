"""Which chunk KV there is, in which tier, and what stays when room is needed. Pure decisions."""

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from heddle.core.errors import InternalError
from heddle.kv.chunk_key import HitKind, Probe
from heddle.kv.chunk_record import ChunkRecord, ChunkVariant
from heddle.kv.heat import COLD, uses, warmed
from heddle.kv.loads_ahead import LoadsAhead
from heddle.kv.tier_ledger import TierLedger

K = TypeVar("K")
AHEAD_SHARE: Final = 0.25  # of host memory, for prompts that may come


class Tier(Enum):
    """Where an entry can lie, besides the device's pages, which are the engine's."""

    HOST = "host"
    DISK = "disk"


class Fetch(Enum):
    """What `ChunkStore.fetch` answers when it has no entry to give now."""

    LOADING = "loading"  # pinned; `completed` will report it
    MISSING = "missing"  # prefill it


@dataclass(frozen=True, slots=True)
class Found:
    """An entry that a prompt can use; `tier` is the nearest one that holds it whole.

    `nbytes` are the bytes of its tensors, as stored.
    """

    record: ChunkRecord
    kind: HitKind
    tier: Tier
    nbytes: int


class Ticket(NamedTuple):
    """One entry from its insertion to its removal; a later entry of the key has another serial."""

    key: bytes
    serial: int


@dataclass(frozen=True, slots=True)
class Admission:
    """What became of an entry that was offered, and what left host memory for it."""

    ticket: Ticket
    in_host: bool
    to_disk: bool
    evicted: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """A load whose host memory is reserved, and what left host memory for it."""

    ticket: Ticket
    nbytes: int
    evicted: tuple[bytes, ...]


@dataclass(slots=True, eq=False)
class _Entry:
    record: ChunkRecord
    serial: int
    nbytes: int
    heat: float
    is_loading: bool = False  # host memory is reserved, the tensors are on their way
    is_writing: bool = False  # the file is queued or half-written
    is_ahead: bool = False  # it was read for a prompt that may come, and no prompt has used it


class ChunkDirectory:
    """Entries, heat, pins and the byte budgets of two tiers. Not thread-safe.

    An entry may lie in both tiers. What is pinned, loading or being written leaves neither, however
    cold; else the coldest leaves first, and never for something colder. Lookups don't pin.
    What is held for prompts that may come (`ahead`) leaves host memory only for what a prompt waits
    for. Of what was read for those, `used_ahead` counts the entries that a prompt has used, and
    `wasted_ahead` those that left host memory before.

    Source: FusionRAG §4.2 (heat-based tiers).
    """

    def __init__(self, host_bytes_max: int, disk_bytes_max: int, half_life_s: float) -> None:
        self._half_life_s = half_life_s
        self._entries: dict[bytes, _Entry] = {}
        self._by_alias: dict[bytes, dict[bytes, None]] = {}
        self._by_source: dict[int, dict[bytes, None]] = {}  # corpus id -> entries it shows in
        self._pins: dict[bytes, int] = {}
        self._serial = 0

        def heat_of(key: bytes) -> float:
            return self._entries[key].heat

        self.host = TierLedger(host_bytes_max, heat_of)
        self.disk = TierLedger(disk_bytes_max, heat_of)
        self.ahead = LoadsAhead(int(AHEAD_SHARE * host_bytes_max))
        self.tokens = 0  # of all entries
        self.used_ahead = self.wasted_ahead = 0
        self.hits = dict.fromkeys(HitKind, 0)
        self.evictions = dict.fromkeys(Tier, 0)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def find(self, probes: Iterable[Probe], now_s: float) -> Found | None:
        """Return the first entry that a probe meets, and count the use.

        Mutates: warms the entry; counts the hit by its kind, or the miss.
        """
        found = _first(probes, self._at)
        if found is None:
            self.hits[HitKind.MISS] += 1
            return None
        probe, entry = found
        self.hits[probe.kind] += 1
        entry.heat = warmed(entry.heat, now_s, self._half_life_s)
        tier = self.tier_of(entry.record.key)
        assert tier is not None, "an entry without a tier was found"
        return Found(entry.record, probe.kind, tier, entry.nbytes)

    def hold_ahead(self, number: int, chunks: Iterable[Iterable[Probe]]) -> None:
        """Hold the first entry that each chunk's probes meet, for a prompt that may come.

        It counts as no use. What lies on disk alone is to be read: `ahead.next`.
        """
        found = [entry for _, entry in filter(None, (_first(each, self._at) for each in chunks))]
        on_disk = (e.record.key for e in found if self.tier_of(e.record.key) is Tier.DISK)
        self.ahead.hold(number, {e.record.key: e.nbytes for e in found}, frozenset(on_disk))

    def tier_of(self, key: bytes) -> Tier | None:
        """Return the nearest tier that holds an entry whole; None if there is none yet."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if key in self.host and not entry.is_loading:
            return Tier.HOST
        return Tier.DISK if key in self.disk and not entry.is_writing else None

    def holds(self, record: ChunkRecord) -> bool:
        """Whether the entry of this record's key is this very one."""
        entry = self._entries.get(record.key)
        return entry is not None and entry.record == record

    def keeps(self, record: ChunkRecord) -> bool:
        """Whether this very entry lies on disk, or is on its way there."""
        if not self.holds(record):
            return False
        return record.key in self.disk or self._entries[record.key].is_writing

    def load_of(self, key: bytes) -> Ticket | None:
        """Return the load that brings an entry to host memory; None if none is under way."""
        entry = self._entries.get(key)
        return Ticket(key, entry.serial) if entry is not None and entry.is_loading else None

    def uses(self, key: bytes, now_s: float) -> float:
        """Return the decayed number of an entry's uses."""
        return uses(self._entries[key].heat, now_s, self._half_life_s)

    def add(
        self, record: ChunkRecord, nbytes: int, now_s: float, *, to_disk: bool
    ) -> Admission | None:
        """Take an entry in; None where nothing is to be done with its tensors.

        It counts as used now, and enters host memory unless only hotter entries could leave for
        it. Offered again, it goes where it isn't yet, and the entry counts as having seen the
        chunks of both offers. Another raw entry of its key stays until it is forgotten; primed KV
        replaces what was primed with other neighbours. `to_disk` says that there is a disk to
        write to; where the admission says so as well, the caller follows with `begin_write` and
        `end_write`.
        """
        key = record.key
        known = self._entries.get(key)
        if known is not None and known.record != record:
            if record.variant is ChunkVariant.RAW:
                return None
            self._remove(known)
            known = None
        entry = known or self._insert(record, nbytes)
        entry.heat = warmed(entry.heat, now_s, self._half_life_s)
        evicted = None
        if key not in self.host:
            evicted = self._make_room(Tier.HOST, nbytes, entry.heat)
        if evicted is not None:
            self.host.add(key, nbytes)
        to_disk = to_disk and key not in self.disk and not entry.is_writing
        entry.is_writing |= to_disk
        if evicted is None and not to_disk:
            self._drop_if_nowhere(entry)
            return None
        # The tensors of one tier have seen these chunks, besides those of the other.
        sources = tuple(dict.fromkeys((*entry.record.sources, *record.sources)))
        entry.record = replace(entry.record, sources=sources)
        _list(self._by_source, sources, key)
        ticket = Ticket(key, entry.serial)
        return Admission(ticket, evicted is not None, to_disk, evicted or ())

    def restore(self, record: ChunkRecord, nbytes: int, file_bytes: int) -> bool:
        """Take in an entry that lies on disk already, cold; False if the budget has no room."""
        assert record.key not in self._entries, "the entry is known already"
        if self.disk.bytes_used + file_bytes > self.disk.bytes_max:
            return False
        self._insert(record, nbytes)
        self.disk.add(record.key, file_bytes)
        return True

    def on_disk(self, count: int) -> dict[Ticket, int]:
        """Return the last entries that came in and lie on disk, with the bytes of their tensors."""
        last = (e for e in reversed(self._entries.values()) if e.record.key in self.disk)
        return {Ticket(e.record.key, e.serial): e.nbytes for e in islice(last, count)}

    def begin_load(self, key: bytes, ahead_s: float | None = None) -> LoadPlan | None:
        """Reserve host memory for an entry on disk; None if what is held there leaves no room.

        For a prompt, what is held for others that may come makes room last.

        Args:
            key: the entry's.
            ahead_s: now, where it is for a prompt that may come: then it drives out only what is
                colder than itself were if it was used now [s]. None = a prompt waits for it.
        """
        assert self.tier_of(key) is Tier.DISK, "only what lies on disk can be loaded"
        entry = self._entries[key]
        if ahead_s is None:
            evicted = self._make_room(Tier.HOST, entry.nbytes, math.inf)
            if evicted is None:
                evicted = self._make_room(Tier.HOST, entry.nbytes, math.inf, spares_ahead=False)
        else:
            heat_max = warmed(entry.heat, ahead_s, self._half_life_s)
            evicted = self._make_room(Tier.HOST, entry.nbytes, heat_max)
        if evicted is None:
            return None
        self.host.add(key, entry.nbytes)
        entry.is_loading = True
        entry.is_ahead = ahead_s is not None
        return LoadPlan(Ticket(key, entry.serial), entry.nbytes, evicted)

    def end_load(self, ticket: Ticket, *, is_read: bool) -> bool:
        """Note that a load has ended; a file that couldn't be read takes its entry along.

        Returns: whether the entry is in host memory now: False if it was forgotten meanwhile.
        """
        entry = self._current(ticket)
        if entry is None:
            return False
        entry.is_loading = False
        if not is_read:
            self._remove(entry)
        return is_read

    def begin_write(self, ticket: Ticket, file_bytes: int) -> tuple[bytes, ...] | None:
        """Reserve disk space; returns what left the disk for it.

        None: it was forgotten meanwhile, or only hotter entries could leave. Nothing is reserved.
        """
        entry = self._current(ticket)
        if entry is None:
            return None
        evicted = self._make_room(Tier.DISK, file_bytes, entry.heat)
        if evicted is not None:
            self.disk.add(ticket.key, file_bytes)
        return evicted

    def end_write(self, ticket: Ticket, *, is_written: bool) -> None:
        """Note that the file is there, or won't be."""
        entry = self._current(ticket)
        if entry is None:
            return
        entry.is_writing = False
        if not is_written:
            self.disk.remove(ticket.key)
            self._drop_if_nowhere(entry)

    def is_current(self, ticket: Ticket, named: tuple[ChunkRecord, int] | None = None) -> bool:
        """Whether the entry is still there: neither evicted nor forgotten.

        With what is `named`, a record and the bytes of its tensors: whether it is that one, too,
        and has seen no other chunks than the entry.
        """
        entry = self._current(ticket)
        if entry is None or named is None:
            return entry is not None
        is_listed = set(entry.record.sources).issuperset(named[0].sources)
        return is_listed and named == (entry.record, entry.nbytes)

    def pin(self, key: bytes) -> None:
        """Keep an entry where it is until as many releases as pins have come.

        Mutates: what was read ahead is used now.
        """
        self._pins[key] = self._pins.get(key, 0) + 1
        entry = self._entries.get(key)
        if entry is not None:
            self.used_ahead += entry.is_ahead
            entry.is_ahead = False

    def release(self, key: bytes) -> None:
        """Take one pin back; the entry itself may be gone already."""
        if key not in self._pins:
            raise InternalError("a chunk's KV was released more often than it was pinned")
        self._pins[key] -= 1
        if self._pins[key] == 0:
            del self._pins[key]

    def forget(self, sources: Collection[int]) -> tuple[bytes, ...]:
        """Remove every entry that holds something of these chunks of the corpus, pinned or not.

        Those are the entries of the chunks, and the entries whose values have seen them.
        Returns: the keys that are gone.
        """
        gone = self._by_source.keys() & set(sources)
        keys = dict.fromkeys(key for source in sorted(gone) for key in self._by_source[source])
        for key in keys:
            self._remove(self._entries[key])
        return tuple(keys)

    def check(self) -> int:
        """Assert every invariant; return the bytes reserved for loads under way. For tests."""
        for tier in (self.host, self.disk):
            assert 0 <= tier.bytes_used <= tier.bytes_max, "a budget is exceeded"
        for key, entry in self._entries.items():
            assert key in self.host or key in self.disk or entry.is_writing, "an entry is nowhere"
            assert not entry.is_loading or key in self.host, "a load has no memory"
            assert key in self._by_alias[entry.record.alias], "an entry has lost its alias"
        for keys in (*self._by_alias.values(), *self._by_source.values()):
            assert keys, "an index has kept an empty list"
            assert keys.keys() <= self._entries.keys(), "an index names an entry that is gone"
        return sum(entry.nbytes for entry in self._entries.values() if entry.is_loading)

    def _at(self, probe: Probe) -> _Entry | None:
        if probe.kind is not HitKind.ALIAS:
            return self._entries[probe.key] if self.tier_of(probe.key) is not None else None
        entries = [
            self._entries[key]
            for key in self._by_alias.get(probe.key, ())
            if self.tier_of(key) is not None
        ]
        # What saw no other chunk suits any place best; among equals, what is used most.
        return max(entries, key=lambda e: (not e.record.context, e.heat), default=None)

    def _current(self, ticket: Ticket) -> _Entry | None:
        entry = self._entries.get(ticket.key)
        return entry if entry is not None and entry.serial == ticket.serial else None

    def _make_room(
        self, tier: Tier, nbytes: int, heat_max: float, *, spares_ahead: bool = True
    ) -> tuple[bytes, ...] | None:
        """Evict what a full tier can best do without, and return it; None = there is no room.

        Nothing is copied on the way: what is to be on disk was written there when it came in.
        """
        ledger = self.host if tier is Tier.HOST else self.disk
        evicted = ledger.victims(nbytes, heat_max, partial(self._is_held, tier, spares_ahead))
        for key in evicted or ():
            ledger.remove(key)
            self.evictions[tier] += 1
            entry = self._entries[key]
            if tier is Tier.HOST:
                self._waste(entry)
            self._drop_if_nowhere(entry)
        return evicted

    def _is_held(self, tier: Tier, spares_ahead: bool, key: bytes) -> bool:
        entry = self._entries[key]
        if key in self._pins or entry.is_loading:
            return True
        return entry.is_writing if tier is Tier.DISK else spares_ahead and key in self.ahead

    def _waste(self, entry: _Entry) -> None:
        """Count what leaves host memory and was read for nothing."""
        self.wasted_ahead += entry.is_ahead
        entry.is_ahead = False

    def _insert(self, record: ChunkRecord, nbytes: int) -> _Entry:
        self._serial += 1
        entry = self._entries[record.key] = _Entry(record, self._serial, nbytes, COLD)
        self.tokens += record.tokens
        self._by_alias.setdefault(record.alias, {})[record.key] = None
        _list(self._by_source, record.sources, record.key)
        return entry

    def _drop_if_nowhere(self, entry: _Entry) -> None:
        key = entry.record.key
        if key not in self.host and key not in self.disk and not entry.is_writing:
            self._remove(entry)

    def _remove(self, entry: _Entry) -> None:
        record = entry.record
        self._waste(entry)
        self.tokens -= record.tokens
        self.host.remove(record.key)
        self.disk.remove(record.key)
        del self._entries[record.key]
        _unlist(self._by_alias, record.alias, record.key)
        for source in record.sources:
            _unlist(self._by_source, source, record.key)


def _list(index: dict[K, dict[bytes, None]], names: Iterable[K], key: bytes) -> None:
    for name in names:
        index.setdefault(name, {})[key] = None


def _unlist(index: dict[K, dict[bytes, None]], name: K, key: bytes) -> None:
    del index[name][key]
    if not index[name]:
        del index[name]


def _first(
    probes: Iterable[Probe], at: Callable[[Probe], _Entry | None]
) -> tuple[Probe, _Entry] | None:
    """Return the first probe that meets an entry, and the entry."""
    for probe in probes:
        entry = at(probe)
        if entry is not None:
            return probe, entry
    return None
