"""Finds stored KV for the chunks of prompts, waits for what is on disk, stores what is new."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from heddle.core.kv_reuse import ReusePolicy
from heddle.engines.llm.fusion.fusion import Fusion, ReusedChunk
from heddle.engines.llm.fusion.prompt_layout import PromptLayout, layout_of
from heddle.engines.llm.sequence import Capture
from heddle.engines.llm.sequence import Sequence as Prompt
from heddle.kv.chunk_directory import Fetch, Found, Tier
from heddle.kv.chunk_key import Probe, PromptKeys
from heddle.kv.chunk_record import ChunkRecord


class StoredKv(Protocol):
    """An entry of the chunk KV store."""

    @property
    def block(self) -> object:
        """Its tensors."""
        ...


class EndedLoad(Protocol):
    """A load that has ended; without an entry it has failed."""

    @property
    def key(self) -> bytes:
        """What was asked for."""
        ...

    @property
    def entry(self) -> StoredKv | None:
        """What was read."""
        ...


class ChunkCache(Protocol):
    """What fusion needs of the chunk KV store (heddle.kv.chunk_store.ChunkStore)."""

    def lookup(self, probes: Iterable[Probe], now_s: float) -> Found | None:
        """Return the first entry that a probe meets."""
        ...

    def fetch(self, key: bytes) -> StoredKv | Fetch:
        """Return an entry, pinned, or start to load it."""
        ...

    def release(self, key: bytes) -> None:
        """Give back one fetch."""
        ...

    def put(self, entry: Any, now_s: float) -> bool:  # noqa: ANN401 - tensors are not known here
        """Store an entry."""
        ...

    @property
    def has_completed(self) -> bool:
        """Whether a load has ended that `completed` has not told of."""
        ...

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from any thread, whenever a load has ended."""
        ...

    def close(self) -> None:
        """Write what waits to be written and end the threads."""
        ...

    def completed(self) -> Sequence[EndedLoad]:
        """Return and forget the loads that have ended."""
        ...


class ChunkExporter(Protocol):
    """The worker, as far as fusion needs it."""

    def export_chunk(self, slots: NDArray[np.int64], record: ChunkRecord) -> object:
        """Copy a chunk's KV out, as an entry of the store. Shapes: slots [record.tokens]."""
        ...


class Fuser:
    """Puts prompts on their way through fusion and takes them off it.

    Mutates: a prompt's `fusion` and `captures`; pins entries of the store until `drop`.
    """

    def __init__(self, cache: ChunkCache, exporter: ChunkExporter, fingerprint: str) -> None:
        self._cache = cache
        self._exporter = exporter
        self._fingerprint = fingerprint
        self._loading: dict[bytes, list[Prompt]] = {}
        self._held: dict[int, tuple[bytes, ...]] = {}  # by the prompt's id

    @property
    def has_arrivals(self) -> bool:
        """Whether `collect` has something to hand out."""
        return self._cache.has_completed

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from any thread, whenever `has_arrivals` has become true."""
        self._cache.subscribe(wake)

    def close(self) -> None:
        """Write what waits to be written and end the store's threads."""
        self._cache.close()

    def begin(self, prompt: Prompt, now_s: float) -> None:
        """Look for stored KV; without any the prompt stays an ordinary one."""
        layout = layout_of(prompt.segments)
        if layout is None or prompt.reuse.policy is ReusePolicy.FULL or not prompt.may_reuse:
            return
        keys = self._keys(prompt, layout)
        reused: dict[int, ReusedChunk] = {}
        for index in range(len(layout.chunks)):
            # The first chunk's raw KV right behind the prefix is lossless; primed KV isn't.
            probes = keys.probes(index, primed=prompt.reuse.primed and index > 0)
            found = self._cache.lookup(probes, now_s)
            chunk = self._fetch(found) if found is not None else None
            if chunk is not None:
                reused[index] = chunk
        name = keys.approximate_record if reused else keys.exact_record
        prompt.captures = tuple(
            Capture(chunk.start, chunk.stop, name(index, chunk.start))
            for index, chunk in enumerate(layout.chunks)
            if index not in reused
        )
        if not reused:
            return
        prompt.fusion = Fusion(layout, prompt.reuse, reused)
        self._held[prompt.id] = tuple(chunk.key for chunk in reused.values())
        for key in {chunk.key for chunk in reused.values() if chunk.block is None}:
            self._loading.setdefault(key, []).append(prompt)

    def collect(self) -> list[Prompt]:
        """Hand out the loads that have ended; return the prompts whose chunks are all there.

        A chunk whose load failed is a miss: its tokens are computed.
        """
        ready = []
        for loaded in self._cache.completed():
            for prompt in self._loading.pop(loaded.key, ()):
                assert prompt.fusion is not None, "a prompt without fusion waits for a load"
                entry = loaded.entry
                if prompt.fusion.take_load(loaded.key, None if entry is None else entry.block):
                    ready.append(prompt)
        return ready

    def drop(self, prompt: Prompt) -> None:
        """Give back what a prompt holds of the store."""
        for key in self._held.pop(prompt.id, ()):
            if prompt in self._loading.get(key, ()):
                self._loading[key].remove(prompt)
            self._cache.release(key)

    def keep(self, record: ChunkRecord, slots: NDArray[np.int64], now_s: float) -> None:
        """Store the KV of a chunk that lies in these slots. Shapes: slots [record.tokens]."""
        self._cache.put(self._exporter.export_chunk(slots, record), now_s)

    def _keys(self, prompt: Prompt, layout: PromptLayout) -> PromptKeys:
        prefix = prompt.token_ids[: layout.prefix_stop]
        keys = PromptKeys(self._fingerprint, prompt.salt, prefix)
        for chunk in layout.chunks:
            keys.append(chunk.token_ids)
        return keys

    def _fetch(self, found: Found) -> ReusedChunk | None:
        fetched = self._cache.fetch(found.record.key)
        if fetched is Fetch.MISSING:
            return None
        block = None if isinstance(fetched, Fetch) else fetched.block
        return ReusedChunk(
            found.record.key, found.kind, found.record.base, found.tier is Tier.DISK, block
        )
