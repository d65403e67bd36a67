"""The chunk KV store: entries found by key, held in host memory and on disk, loaded aside."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from heddle.core.errors import ConfigError, InputError
from heddle.core.gauges import (
    CHUNK_KV_AHEAD_USED,
    CHUNK_KV_AHEAD_WASTED,
    CHUNK_KV_DISK_BYTES,
    CHUNK_KV_DISK_EVICTED,
    CHUNK_KV_DISK_ONLY,
    CHUNK_KV_DISK_ONLY_S,
    CHUNK_KV_ENTRIES,
    CHUNK_KV_HOST_BYTES,
    CHUNK_KV_HOST_EVICTED,
    CHUNK_KV_LOADED,
    CHUNK_KV_NOT_LOADED,
    CHUNK_KV_TOKENS,
    CHUNK_KV_UNWRITTEN,
)
from heddle.core.ports import Clock
from heddle.kv.chunk_directory import (
    Admission,
    ChunkDirectory,
    Fetch,
    Found,
    LoadPlan,
    Ticket,
    Tier,
)
from heddle.kv.chunk_entry import ChunkEntry, StoredChunk
from heddle.kv.chunk_key import HitKind, Probe
from heddle.kv.chunk_loader import ChunkLoader
from heddle.kv.chunk_record import ChunkRecord
from heddle.kv.disk.chunk_files import ChunkFiles
from heddle.kv.disk.disk_tier import DiskTier, EndOfWrite
from heddle.kv.kv_encoding import KvEncoding

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChunkStoreSettings:
    """How much the store may hold, where, and in which form.

    Args:
        host_bytes_max: host memory for entries; what waits to be written is bounded apart.
        directory: where the disk tier lies; None = there is none.
        disk_bytes_max: what its files may take.
        removes_excess: when it opens, the oldest files beyond `disk_bytes_max` are removed; else
            they are left to other processes, which may have written them a moment ago.
        half_life_s: after which a use counts half.
        loads_max: loads that a prompt waits for and that `completed` has not handed out; each holds
            its KV. Others are bounded by the bytes that they hold (`LoadsAhead`).
        write_queue_bytes_max: entries that wait to be written.
        load_bytes_per_s: hold the disk to this rate, for benchmarks; None = as fast as it is.
        pins_host_memory: keep entries where a CUDA device reads them without a copy in between.
    """

    host_bytes_max: int
    directory: Path | None = None
    disk_bytes_max: int = 0
    encoding: KvEncoding = KvEncoding.BF16
    half_life_s: float = 600.0
    loader_threads: int = 2
    loads_max: int = 64
    write_queue_bytes_max: int = 256 << 20
    load_bytes_per_s: float | None = None
    pins_host_memory: bool = False
    removes_excess: bool = True

    def __post_init__(self) -> None:
        for name in ("host_bytes_max", "half_life_s", "loader_threads", "loads_max"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} of the chunk KV store must be positive")
        if self.directory is not None and self.disk_bytes_max <= 0:
            raise ConfigError("disk_bytes_max must be positive where the store has a directory")
        if self.load_bytes_per_s is not None and self.load_bytes_per_s <= 0:
            raise ConfigError("load_bytes_per_s must be positive, or None for no limit")


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A load that has ended; `entry` None means that it failed: the chunk is a miss."""

    key: bytes
    entry: ChunkEntry | None
    nbytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class StoreStats:
    """The store in numbers, since it was opened. `unwritten`: entries the disk didn't take.

    Of the entries that were read for prompts that might come, prompts have used `used_ahead`, and
    `wasted_ahead` have left host memory before. `tokens` are those of all entries; the
    `disk_only` of them that are not in host memory would take `disk_only_s` to read, one after the
    other [s]. `pins` fetches were not given back yet; `ahead_bytes` of host memory are kept for
    prompts to come.
    """

    hits: Mapping[HitKind, int]
    evictions: Mapping[Tier, int]
    entries: int
    host_bytes: int
    disk_bytes: int
    loads: int
    failed_loads: int
    unwritten: int
    tokens: int = 0
    disk_only: int = 0
    disk_only_s: float = 0.0
    used_ahead: int = 0
    wasted_ahead: int = 0
    pins: int = 0
    ahead_bytes: int = 0

    def gauges(self) -> Mapping[str, float]:
        """Return the same by the names of `core.gauges`."""
        return {
            CHUNK_KV_ENTRIES: self.entries,
            CHUNK_KV_HOST_BYTES: self.host_bytes,
            CHUNK_KV_DISK_BYTES: self.disk_bytes,
            CHUNK_KV_HOST_EVICTED: self.evictions[Tier.HOST],
            CHUNK_KV_DISK_EVICTED: self.evictions[Tier.DISK],
            CHUNK_KV_LOADED: self.loads - self.failed_loads,
            CHUNK_KV_NOT_LOADED: self.failed_loads,
            CHUNK_KV_UNWRITTEN: self.unwritten,
            CHUNK_KV_TOKENS: self.tokens,
            CHUNK_KV_DISK_ONLY: self.disk_only,
            CHUNK_KV_DISK_ONLY_S: self.disk_only_s,
            CHUNK_KV_AHEAD_USED: self.used_ahead,
            CHUNK_KV_AHEAD_WASTED: self.wasted_ahead,
        }


class ChunkStore:
    """Finds, keeps, loads and forgets chunk KV for one model. Every method is thread-safe.

    One lock guards directory and tensors; no file is read or written under it, so `lookup`,
    `fetch`, `completed` and `put` return at once. A request's way:

        found = store.lookup(keys.probes(i), now_s)      # once for each chunk
        got = store.fetch(found.record.key, found.record)  # an entry, or LOADING, or MISSING
        for loaded in store.completed(): ...             # when `wake` was called
        store.release(found.record.key)                  # once for each fetch that wasn't MISSING

    Before a request's prompt is there, `hold` has its likely entries read while no
    prompt waits for a load, and `leave` ends that.

    Args:
        fingerprint: of the model; entries of another one are never used.

    Source: FusionRAG §4.1 (Alternative Path), §4.2 (asynchronous KVCache scheduler).
    """

    def __init__(self, settings: ChunkStoreSettings, fingerprint: str, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._wake: Callable[[], None] = _no_subscriber
        self._lock = threading.Lock()
        self._directory = ChunkDirectory(
            settings.host_bytes_max, settings.disk_bytes_max, settings.half_life_s
        )
        self._host: dict[bytes, StoredChunk] = {}
        self._completed: deque[Loaded] = deque()
        self._wanted: set[Ticket] = set()  # the loads under way that a prompt waits for
        self._loads = self._failed_loads = 0
        self._pins = 0  # fetches that were not given back
        self._is_closed = False
        folder = settings.directory
        self._disk = DiskTier(
            None if folder is None else ChunkFiles(folder, fingerprint),
            self._directory,
            self._lock,
            settings.disk_bytes_max,
            settings.write_queue_bytes_max,
            removes_excess=settings.removes_excess,
        )
        self._loader: ChunkLoader[Ticket, _Read] = ChunkLoader(
            self._read, self._end_load, clock, settings.loader_threads, settings.load_bytes_per_s
        )
        if self._loader.is_in_the_dark:
            self._loader.rehearse(self._directory.on_disk(settings.loader_threads))

    def __contains__(self, key: object) -> bool:
        """Whether an entry has this key, wherever it is; not a use of it."""
        with self._lock:
            return key in self._directory

    def lookup(self, probes: Iterable[Probe], now_s: float) -> Found | None:
        """Return the first entry that a probe meets, or None for a miss.

        Counts as a use of the entry, and in the hit counts; pins nothing.
        """
        with self._lock:
            return self._directory.find(probes, now_s)

    def fetch(self, key: bytes, record: ChunkRecord | None = None) -> ChunkEntry | Fetch:
        """Return an entry from host memory, pinned, or start to load it.

        Unless the answer is MISSING, the entry is pinned until `release`, even if its load fails.
        MISSING: it is gone, or another than `record`, which was looked up, or host memory is full
        of pinned entries, or too many loads wait. A second fetch joins a load under way.
        """
        with self._lock:
            if record is not None and not self._directory.holds(record):
                return Fetch.MISSING
            tier = self._directory.tier_of(key)
            under_way = self._directory.load_of(key)
            if under_way is not None:
                self._wanted.add(under_way)
            elif tier is not Tier.HOST and not self._start_load(key, tier):
                return Fetch.MISSING
            self._directory.pin(key)
            self._pins += 1
            if tier is not Tier.HOST:
                return Fetch.LOADING
            stored = self._host[key]
        return stored.entry()

    def hold(self, number: int, chunks: Iterable[Iterable[Probe]]) -> None:
        """Read the first entry that each chunk's probes meet, and keep it for a prompt to come.

        It counts as no use. One entry after another is read, and only while a thread is left for
        loads that a prompt waits for. It takes the place of what was held for this prompt before.

        Args:
            number: of the prompt, for `leave`.
            chunks: of the prompt, the most wanted first.
        """
        with self._lock:
            self._directory.hold_ahead(number, chunks)
            self._read_ahead()

    def leave(self, number: int) -> frozenset[bytes]:
        """Keep nothing for a prompt any more, and give up its reads that have not begun.

        Returns: the entries that were read for it, or are being read; empty for an unknown prompt.
        """
        with self._lock:
            return self._directory.ahead.drop(number)

    @property
    def has_completed(self) -> bool:
        """Whether a load has ended that `completed` has not told of."""
        return bool(self._completed)

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from the store's threads, when `completed` or `notes` has something new."""
        self._wake = wake
        self._disk.subscribe(wake)

    def completed(self) -> tuple[Loaded, ...]:
        """Return and forget the loads that have ended since the last call; never waits."""
        with self._lock:
            ended = tuple(self._completed)
            self._completed.clear()
        return ended

    def release(self, key: bytes) -> None:
        """Give back one fetch."""
        with self._lock:
            self._directory.release(key)
            self._pins -= 1

    def predicted_load_s(self, found: Iterable[Found]) -> list[float]:
        """Return when each of these would be in host memory, all fetched now in this order [s].

        From now, behind the loads that wait; 0 for what is there already. Where no load has told
        for long how fast the disk is, the first of them is loaded to find out, fetched or not.
        """
        with self._lock:
            ends_s: dict[bytes, float] = {}
            sizes: dict[bytes, int] = {}
            keys = []
            for one in found:
                key = one.record.key
                keys.append(key)
                under_way = self._directory.load_of(key)
                if under_way is not None:
                    ends_s[key] = self._loader.left_s(under_way)
                elif self._directory.tier_of(key) is Tier.DISK:
                    sizes[key] = one.nbytes
            ends_s.update(zip(sizes, self._loader.predicted_s(sizes.values()), strict=True))
            if sizes and self._loader.is_in_the_dark:
                self._start_load(next(iter(sizes)), Tier.DISK)
        return [ends_s.get(key, 0.0) for key in keys]

    def put(self, entry: ChunkEntry, now_s: float, ended: EndOfWrite | None = None) -> bool:
        """Store an entry in host memory, and on disk a little later.

        Never waits for the disk: what its queue has no room for isn't written (and counted). Raw
        KV with the same key stays as it is; primed KV that saw other neighbours is replaced.

        Args:
            entry: its tensors are copied.
            now_s: it counts as used now.
            ended: told once, from any thread, when the entry lies on disk (None), or why it
                won't; it must not raise.
        Returns: whether the store holds an entry of this key now, or will.
        """
        ended = ended or _no_waiter
        try:
            stored = self._pinned(StoredChunk.of(entry, self._settings.encoding))
        except InputError as error:
            log.warning("%s", error)
            ended(str(error))
            return False
        record = stored.record
        with self._lock:
            to_disk = self._disk.takes_entries(now_s)
            admission = self._directory.add(record, stored.kv.nbytes, now_s, to_disk=to_disk)
            self._hold(stored, admission)
            is_queued = False
            problem = None
            if admission is not None and admission.to_disk:
                problem = self._disk.queue(admission.ticket, stored, ended, now_s)
                is_queued = problem is None
            elif not self._directory.keeps(record):
                problem = self._disk.problem
            is_held = record.key in self._directory
        if not is_queued:
            ended(problem)
        return is_held

    def keeps(self, record: ChunkRecord) -> bool:
        """Whether this very entry lies on disk, or is on its way there; not a use of it.

        One that another process has written is taken in.
        """
        if record.key not in self:
            self._disk.look_for(record.key)
        with self._lock:
            return self._directory.keeps(record)

    def forget(self, sources: Collection[int]) -> int:
        """Remove every entry of these chunks, and every one whose values have seen them.

        Files are removed before it returns, other processes' too. What a request holds already
        stays in its hands.

        Args:
            sources: ids of the corpus.
        Returns: how many entries are gone.
        """
        self.refresh()
        with self._lock:
            keys = self._directory.forget(sources)
            self._drop_from_host(keys)
            self._disk.remove(keys)
        return len(keys)

    def refresh(self) -> None:
        """Take in what is in the disk tier's folder by now, written by any process.

        Reads the header of every file that is new to it. What the budget has no room for is left
        to the process that wrote it, which may have a larger one.
        """
        self._disk.refresh(known=self)

    def stats(self) -> StoreStats:
        """Return the store in numbers, each right by itself.

        Waits for no lock, unlike all else: files are named and removed under it, and an engine
        asks after every step.
        """
        directory = self._directory
        disk_only = max(0, len(directory) - len(directory.host))
        file_bytes = directory.disk.bytes_used // max(1, len(directory.disk))
        return StoreStats(
            hits=dict(directory.hits),
            evictions=dict(directory.evictions),
            entries=len(directory),
            host_bytes=directory.host.bytes_used,
            disk_bytes=directory.disk.bytes_used,
            loads=self._loads,
            failed_loads=self._failed_loads,
            unwritten=self._disk.unwritten,
            tokens=directory.tokens,
            disk_only=disk_only,
            disk_only_s=disk_only * self._loader.read_s(file_bytes),
            used_ahead=directory.used_ahead,
            wasted_ahead=directory.wasted_ahead,
            pins=self._pins,
            ahead_bytes=directory.ahead.bytes_held,
        )

    def gauges(self) -> Mapping[str, float]:
        """Return the state of the store, by the names of `core.gauges`."""
        return self.stats().gauges()

    @property
    def notes(self) -> tuple[str, ...]:
        """Why it doesn't keep KV as its settings say; empty where it does."""
        problem = self._disk.problem  # read once: the writer's thread may end it
        return () if self._settings.directory is None or problem is None else (problem,)

    def check(self) -> None:
        """Assert that every tensor is accounted for, loads under way as well; for tests."""
        with self._lock:
            reserved = self._directory.check()
            held = sum(stored.kv.nbytes for stored in self._host.values())
            counted = self._directory.host.bytes_used
        assert held + reserved == counted, "host memory is counted wrongly"

    def flush(self) -> None:
        """Wait until all that was put before is on disk, or refused by it."""
        self._disk.flush()

    def close(self) -> None:
        """Write what waits to be written, give up loads that have not begun, end the threads."""
        with self._lock:
            self._is_closed = True
        self._disk.close()
        self._loader.close()

    def _hold(self, stored: StoredChunk, admission: Admission | None) -> None:
        """Keep the tensors that were let into host memory, and none that have left it."""
        key = stored.record.key
        self._drop_from_host(admission.evicted if admission is not None else ())
        if admission is not None and admission.in_host:
            self._host[key] = stored
        elif key not in self._directory.host:  # what this entry replaces may have lain there
            self._drop_from_host((key,))

    def _drop_from_host(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self._host.pop(key, None)

    def _start_load(self, key: bytes, tier: Tier | None) -> bool:
        uncollected = len(self._wanted) + len(self._completed)
        if tier is None or uncollected >= self._settings.loads_max or self._is_closed:
            return False
        plan = self._directory.begin_load(key)
        if plan is None:
            return False
        self._wanted.add(plan.ticket)
        self._start(plan)
        return True

    def _read_ahead(self) -> None:
        """Start reads for prompts that may come, as long as a thread is left for other loads."""
        ahead = self._directory.ahead
        while not self._is_closed and self._loader.has_spare_thread:
            waiting = ahead.next()
            if waiting is None:
                return
            number, key = waiting
            is_on_disk = self._directory.tier_of(key) is Tier.DISK
            if not is_on_disk or self._directory.load_of(key) is not None:
                continue  # read for another prompt, or gone by now
            plan = self._directory.begin_load(key, ahead_s=self._clock.now_s())
            if plan is not None:
                ahead.begin(number, key)
                self._start(plan)

    def _start(self, plan: LoadPlan) -> None:
        self._drop_from_host(plan.evicted)
        self._loader.start(plan.ticket, plan.nbytes)

    def _read(self, ticket: Ticket) -> "_Read | None":
        """Read and decode an entry, on a loader thread."""
        stored = self._disk.read(ticket)
        if stored is None:
            return None
        stored = self._pinned(stored)
        return _Read(stored, stored.entry())

    def _pinned(self, stored: StoredChunk) -> StoredChunk:
        return stored.pinned() if self._settings.pins_host_memory else stored

    def _end_load(self, ticket: Ticket, nbytes: int, read: "_Read | None", seconds: float) -> None:
        with self._lock:
            is_there = self._directory.end_load(ticket, is_read=read is not None)
            entry = None
            if read is not None and is_there:
                self._host[ticket.key] = read.stored
                entry = read.entry
            self._loads += 1
            self._failed_loads += entry is None
            if ticket in self._wanted:
                self._wanted.discard(ticket)
                self._completed.append(Loaded(ticket.key, entry, nbytes, seconds))
            self._read_ahead()
        self._wake()


class _Read(NamedTuple):
    stored: StoredChunk
    entry: ChunkEntry


def _no_subscriber() -> None:
    """Stand in for a subscriber until there is one."""


def _no_waiter(problem: str | None) -> None:
    """Stand in for a caller that doesn't wait for the disk."""
