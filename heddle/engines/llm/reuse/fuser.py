"""Finds stored KV for the chunks of prompts, waits for what is on disk, stores what is new."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import StorageError
from heddle.core.gauges import CHUNK_KV_FUSED, CHUNK_KV_WHOLE
from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.core.payloads import PrefillPayload
from heddle.core.ports import Clock
from heddle.core.results import FusedKv
from heddle.costs.load_choice import choose_loads
from heddle.engines.llm.fusion.asked_questions import AskedQuestions, QuestionScorer
from heddle.engines.llm.fusion.attention_log import AttentionLog
from heddle.engines.llm.fusion.fused_prompt import ReusedChunk, ScoredAhead
from heddle.engines.llm.fusion.fusion import Fusion
from heddle.engines.llm.fusion.prompt_layout import PromptLayout, layout_of
from heddle.engines.llm.reuse.chunk_keeping import ChunkKeeping
from heddle.engines.llm.reuse.guard import FusionGuard, Outlook, PromptGuard, ratio_of
from heddle.engines.llm.sequence import Capture
from heddle.engines.llm.sequence import Sequence as Prompt
from heddle.kv.chunk_directory import Fetch, Found, Tier
from heddle.kv.chunk_key import HitKind, Probe, PromptKeys
from heddle.kv.chunk_record import ChunkRecord

NO_QUESTION: Final = (
    "no stored chunk was used: nothing follows the prompt's last passage, so nothing asks about "
    "it; put the question behind the passages"
)
NOT_LOOKED_UP: Final = "no stored chunk was used: whether one is deleted can't be read"

log = logging.getLogger(__name__)


class StoredKv(Protocol):
    """An entry of the chunk KV store."""

    @property
    def block(self) -> object:
        """Its tensors."""
        ...

    @property
    def error(self) -> float:
        """What storing it has cost, as relative L2 error."""
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

    def __contains__(self, key: object) -> bool:
        """Whether it has an entry of this key."""
        ...

    def lookup(self, probes: Iterable[Probe], now_s: float) -> Found | None:
        """Return the first entry that a probe meets.

        Raises: StorageError: whether it is of a deleted chunk can't be found out.
        """
        ...

    def predicted_load_s(self, found: Iterable[Found]) -> Sequence[float]:
        """Return when each would be in host memory, all fetched now in this order [s from now]."""
        ...

    def fetch(self, key: bytes, record: ChunkRecord | None = None) -> StoredKv | Fetch:
        """Return an entry, pinned, or start to load it; MISSING where it has another record."""
        ...

    def release(self, key: bytes) -> None:
        """Give back one fetch."""
        ...

    def put(
        self,
        entry: Any,  # noqa: ANN401 - tensors are not known here
        now_s: float,
        ended: Callable[[str | None], None] | None = None,
    ) -> bool:
        """Store an entry; `ended` gets None once it is on disk, else the reason.

        Raises: StorageError: as `lookup`; `ended` gets nothing.
        """
        ...

    def keeps(self, record: ChunkRecord) -> bool:
        """Whether this very entry lies on disk, or is on its way there."""
        ...

    def hold(self, number: int, chunks: Iterable[Iterable[Probe]]) -> None:
        """Read entries for a prompt to come, and keep them for it."""
        ...

    def leave(self, number: int) -> frozenset[bytes]:
        """Keep nothing for a prompt any more; return the entries that were read for it."""
        ...

    @property
    def has_completed(self) -> bool:
        """Whether a load has ended that `completed` has not told of."""
        ...

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from any thread, whenever a load has ended or `notes` have changed."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Why it doesn't keep KV as configured; empty where it does."""
        ...

    def gauges(self) -> Mapping[str, float]:
        """Return its state by the names of `core.gauges`."""
        ...

    def close(self) -> None:
        """Write what waits to be written and end the threads."""
        ...

    def completed(self) -> Sequence[EndedLoad]:
        """Return and forget the loads that have ended."""
        ...


class ChunkExporter(QuestionScorer, Protocol):
    """The worker, as far as fusion needs it."""

    @property
    def can_share(self) -> bool:
        """Whether its attention reads pages of others as fast as copies of them."""
        ...

    @property
    def slowdowns(self) -> tuple[str, ...]:
        """What makes fused prompts slower here than they could be, if anything does."""
        ...

    def export_chunk(self, slots: NDArray[np.int64], record: ChunkRecord) -> object:
        """Copy a chunk's KV out, as an entry of the store. Shapes: slots [record.tokens]."""
        ...


class Fuser:
    """Puts prompts on their way through fusion and takes them off it.

    Mutates: a prompt's `fusion`, `fused`, `captures`, `unprimed`, `attention`, and the counts of
    its loads; pins entries of the store until `drop`. What questions that were run ahead look for
    is in `asked`; `guard` says which prompts are computed whole, `keeping` which chunks are stored.
    """

    def __init__(self, cache: ChunkCache, exporter: ChunkExporter, fingerprint: str) -> None:
        self._cache = cache
        self._exporter = exporter
        self._fingerprint = fingerprint
        self.asked = AskedQuestions(exporter)
        self.guard = FusionGuard()
        self.keeping = ChunkKeeping()
        self._loading: dict[bytes, list[Prompt]] = {}
        self._held: dict[int, tuple[bytes, ...]] = {}  # by the prompt's id

    @property
    def has_arrivals(self) -> bool:
        """Whether `collect` has something to hand out."""
        return self._cache.has_completed

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from any thread, when `has_arrivals` is true now or `notes` have changed."""
        self._cache.subscribe(wake)

    @property
    def notes(self) -> tuple[str, ...]:
        """Why the store doesn't keep KV as configured; empty where it does."""
        return self._cache.notes

    def gauges(self) -> Mapping[str, float]:
        """Return its state and the store's by the names of `core.gauges`."""
        guard = self.guard
        return {
            **self._cache.gauges(),
            CHUNK_KV_FUSED: guard.fused,
            CHUNK_KV_WHOLE: guard.whole,
        }

    def close(self) -> None:
        """Write what waits to be written and end the store's threads."""
        self._cache.close()

    def begin(self, prompt: Prompt, now_s: float, outlook: Outlook) -> None:
        """Look for stored KV; without any the prompt stays an ordinary one.

        It also does where fusing it is not predicted to pay. Where that is so with all stored,
        nothing is looked up, and nothing kept of it either. So it is while the corpus can't say
        which chunks are deleted. Unless its policy reuses always, a chunk is left on disk if
        loading it takes longer than prefilling it once the engine has finished other requests'
        work. The receipt says so.
        """
        self._begin(prompt, now_s, outlook)
        if prompt.load_id is not None:
            read = self._cache.leave(prompt.load_id)
            prompt.loads_used = len(read.intersection(self._held.get(prompt.id, ())))
            prompt.loads_wasted = len(read) - prompt.loads_used
            prompt.load_id = None

    def _begin(self, prompt: Prompt, now_s: float, outlook: Outlook) -> None:
        layout = layout_of(prompt.segments)
        is_full = prompt.reuse.policy is ReusePolicy.FULL
        if layout is None or is_full or not prompt.may_reuse:
            return
        if not layout.has_question:
            _reuse_nothing(prompt, layout, (NO_QUESTION,))
            return
        question = tuple(prompt.token_ids[layout.question_start : layout.tokens])
        is_ahead = prompt.reuse.asks_alone and self.asked.knows(prompt.salt, question)
        judged = self.guard.prompt(layout, prompt.reuse, outlook, is_ahead=is_ahead)
        if problem := self.guard.against_all(judged):
            _compute_whole(prompt, (), problem)
            return
        keys = self.keys_of(prompt.token_ids, prompt.salt, layout)
        try:
            found = self.look_up(_probes(keys, layout, prompt.reuse), now_s)
        except StorageError as error:
            _reuse_nothing(prompt, layout, (f"{NOT_LOOKED_UP}: {error}",))
            return
        if prompt.reuse.primed:
            prompt.unprimed = _unprimed(layout, found)
        ends_s = dict(zip(found, self._cache.predicted_load_s(found.values()), strict=True))
        busy_s = outlook.busy_s(layout.tokens)
        saved_token_s = (1.0 - ratio_of(prompt.reuse)) * outlook.token_s(layout.tokens)
        fetched, notes = (
            (found, ())
            if prompt.reuse.always
            else _worth_fetching(layout, found, ends_s, saved_token_s, busy_s)
        )
        kinds = {index: one.kind for index, one in fetched.items()}
        wait_s = max((ends_s[index] - busy_s for index in fetched), default=0.0)
        problem = self.guard.against(judged, kinds, max(0.0, wait_s)) if fetched else ""
        if problem:
            looks = [found[i].kind if i in found else HitKind.MISS for i in range(len(keys))]
            _compute_whole(prompt, looks, problem)
            kept, name = frozenset(found), keys.exact_record
        else:
            kept = self.fuse(prompt, layout, keys, fetched, now_s, notes)
            self.guard.fused += bool(kept)
            reused = {index: fetched[index].record for index in kept}
            name = partial(keys.approximate_record, reused=reused) if kept else keys.exact_record
        wanted = self._worth_keeping(prompt, keys, found, saved_token_s)
        prompt.captures = tuple(
            Capture(chunk.start, chunk.stop, name(index, chunk.start))
            for index, chunk in enumerate(layout.chunks)
            if index in wanted and index not in kept
        )
        logs = prompt.reuse.policy in (ReusePolicy.CACHECRAFT, ReusePolicy.CACHECRAFT_FIXED)
        if prompt.captures and logs and not prompt.row.spans:
            prompt.attention = AttentionLog(layout, [capture.start for capture in prompt.captures])

    def hold(self, load_id: int, prompt: PrefillPayload, outlook: Outlook) -> None:
        """Read what is stored of a prompt's chunks from disk, and keep it until the prompt comes.

        Nothing waits for these reads, and they wait for those that a prompt waits for. Nothing is
        read for a prompt that will be computed whole.
        """
        layout = layout_of(prompt.segments)
        if layout is None or not prompt.reuse.is_approximate:
            return
        judged = PromptGuard(layout, prompt.reuse, outlook, is_ahead=True)
        if not judged.allows(judged.all_stored()):
            self._cache.leave(load_id)
            return
        keys = self.keys_of(prompt.token_ids, prompt.cache_salt, layout)
        self._cache.hold(load_id, _probes(keys, layout, prompt.reuse))

    def leave(self, load_id: int) -> None:
        """Keep nothing any more for a prompt that may come."""
        self._cache.leave(load_id)

    def scores_ahead(self, prompt: Prompt) -> ScoredAhead:
        """Return what a fused prompt's question looks at, where it was run ahead of the prompt."""
        assert prompt.fusion is not None, "a prompt without fusion has nothing to be scored"
        layout, chunks = prompt.fusion.layout, prompt.fusion.scorable
        question = tuple(prompt.token_ids[layout.question_start : layout.tokens])
        return self.asked.scores(prompt.salt, question, layout.question_start, chunks)

    def knows(self, key: bytes) -> bool:
        """Whether the store has KV of this key."""
        return key in self._cache

    def look_up(self, probes: Iterable[Iterable[Probe]], now_s: float) -> dict[int, Found]:
        """Return what is stored of a prompt's first chunks, by their indices.

        Raises: StorageError: the corpus can't say which chunks are deleted.
        """
        found = {}
        for index, wanted in enumerate(probes):
            one = self._cache.lookup(wanted, now_s)
            if one is not None:
                found[index] = one
        return found

    def fuse(
        self,
        prompt: Prompt,
        layout: PromptLayout,
        keys: PromptKeys,
        found: Mapping[int, Found],
        now_s: float,
        notes: tuple[str, ...] = (),
    ) -> frozenset[int]:
        """Put a prompt on its way with what was found of its chunks, fetched in this order.

        The receipt takes over the `notes`, which are logged here.

        Returns: the indices of the chunks that are reused; without any it stays as it was.
        """
        reused: dict[int, ReusedChunk] = {}
        for index, one in found.items():
            chunk = self._fetch(one, keys, layout, index)
            if chunk is not None:
                reused[index] = chunk
        if len(reused) < len(found):
            notes += (
                f"{len(found) - len(reused)} of {len(found)} stored chunks were prefilled: host "
                "memory is full of chunks in use, or too many loads wait",
            )
        if not reused:
            _reuse_nothing(prompt, layout, notes)
            return frozenset()
        _log_all(prompt, notes)
        prompt.fusion = Fusion(
            layout,
            prompt.reuse,
            dict(sorted(reused.items())),
            now_s,
            (*notes, *self._exporter.slowdowns),
            can_share=self._exporter.can_share,
        )
        self._held[prompt.id] = tuple(chunk.record.key for chunk in reused.values())
        for key in {chunk.record.key for chunk in reused.values() if chunk.block is None}:
            self._loading.setdefault(key, []).append(prompt)
        return frozenset(reused)

    def collect(self, now_s: float) -> list[Prompt]:
        """Hand out the loads that have ended; return the prompts whose chunks are all there.

        A chunk whose load failed is a miss: its tokens are computed.
        """
        ready = []
        for loaded in self._cache.completed():
            for prompt in self._loading.pop(loaded.key, ()):
                assert prompt.fusion is not None, "a prompt without fusion waits for a load"
                entry = loaded.entry
                block, error = (None, 0.0) if entry is None else (entry.block, entry.error)
                if prompt.fusion.take_load(loaded.key, block, error, now_s):
                    ready.append(prompt)
        return ready

    def drop(self, prompt: Prompt) -> None:
        """Give back what a prompt holds of the store."""
        for key in self._held.pop(prompt.id, ()):
            if prompt in self._loading.get(key, ()):
                self._loading[key].remove(prompt)
            self._cache.release(key)

    def keep(self, prompt: Prompt, clock: Clock) -> None:
        """Store the KV of the chunks that a prompt has computed, for prompts to come.

        Nothing is stored while the corpus can't say which chunks are deleted.
        """
        started_s, tokens = clock.now_s(), 0
        for capture in prompt.captures:
            if capture.stop <= prompt.num_computed_tokens:
                try:
                    self.store(prompt, capture, started_s)
                except StorageError as error:
                    log.info("prompt %d: its chunks' KV is not stored: %s", prompt.id, error)
                    return
                tokens += capture.stop - capture.start
        self.keeping.took(tokens, clock.now_s() - started_s)

    def keeps(self, record: ChunkRecord) -> bool:
        """Whether this very KV lies on disk, or is on its way there."""
        return self._cache.keeps(record)

    def store(
        self,
        prompt: Prompt,
        capture: Capture,
        now_s: float,
        ended: Callable[[str | None], None] | None = None,
    ) -> None:
        """Store a chunk's KV; `ended` gets None once it is on disk, else the reason.

        Raises: StorageError: the corpus can't say which chunks are deleted.
        """
        record = capture.record
        if prompt.attention is not None:
            record = replace(record, attention=prompt.attention.of_chunk_at(capture.start))
        slots = prompt.row.slots(np.arange(capture.start, capture.stop))
        self._cache.put(self._exporter.export_chunk(slots, record), now_s, ended)

    def keys_of(self, token_ids: Sequence[int], salt: str, layout: PromptLayout) -> PromptKeys:
        """Return the keys of a prompt's chunks."""
        keys = PromptKeys(self._fingerprint, salt, tuple(token_ids[: layout.prefix_stop]))
        stop = layout.prefix_stop
        for chunk in layout.chunks:
            between = tuple(token_ids[stop : chunk.start])
            keys.append(
                chunk.token_ids,
                chunk.chunk_id,
                is_public=chunk.is_public,
                collection=chunk.collection,
                between=between,
            )
            stop = chunk.stop
        return keys

    def _worth_keeping(
        self, prompt: Prompt, keys: PromptKeys, found: Mapping[int, Found], saved_token_s: float
    ) -> frozenset[int]:
        """Return the indices of the chunks whose KV is stored where it is computed.

        Mutates: counts the prompt's chunks.
        """
        known = [
            self.keeping.note(chunk, is_stored=index in found)
            for index, chunk in enumerate(keys.own_chunks)
        ]
        are_new = prompt.reuse.always or self.keeping.pays_for_new(saved_token_s)
        return frozenset(index for index, is_known in enumerate(known) if is_known or are_new)

    def _fetch(
        self, found: Found, keys: PromptKeys, layout: PromptLayout, index: int
    ) -> ReusedChunk | None:
        fetched = self._cache.fetch(found.record.key, found.record)
        if fetched is Fetch.MISSING:
            return None
        if isinstance(fetched, Fetch):
            block, error = None, 0.0  # on its way
        else:
            block, error = fetched.block, fetched.error
        return ReusedChunk(
            span=layout.chunks[index],
            record=found.record,
            kind=found.kind,
            from_disk=found.tier is Tier.DISK,
            block=block,
            before=keys.chunks[:index],
            error=error,
        )


def _probes(keys: PromptKeys, layout: PromptLayout, reuse: KvReuse) -> list[Iterable[Probe]]:
    """Return what to look for, for each chunk of a prompt.

    The first chunk's raw KV right behind the prefix is lossless; primed KV isn't.
    """
    wanted = reuse.wants_primed_with
    return [
        keys.probes(index, primed=wanted if index else None) for index in range(len(layout.chunks))
    ]


def _unprimed(layout: PromptLayout, found: Mapping[int, Found]) -> tuple[int, ...]:
    """Return the corpus's ids of chunks that have neither primed nor lossless KV.

    The first chunk is best served by its raw KV.
    """
    wanting = []
    for index, chunk in enumerate(layout.chunks):
        one = found.get(index)
        is_served = one is not None and (one.kind is HitKind.EXACT or one.record.variant.is_primed)
        if index > 0 and chunk.chunk_id is not None and not is_served:
            wanting.append(chunk.chunk_id)
    return tuple(dict.fromkeys(wanting))


def _reuse_nothing(prompt: Prompt, layout: PromptLayout, notes: tuple[str, ...]) -> None:
    """Leave a prompt an ordinary one; its receipt says so. Mutates: the prompt's `fused`."""
    _log_all(prompt, notes)
    misses = {HitKind.MISS.value: len(layout.chunks)}
    prompt.fused = FusedKv(
        prompt.reuse.policy.value,
        0.0,
        misses,
        notes=notes,
        primed_with=prompt.reuse.wants_primed_with,
    )


def _compute_whole(prompt: Prompt, looks: Iterable[HitKind], why: str) -> None:
    """Leave a prompt an ordinary one, as that is predicted to take less time.

    Mutates: the prompt's `fused`, which names the policy that was asked for, and how its chunks
        were found where they were looked for.
    """
    log.info("prompt %d is computed whole: %s", prompt.id, why)
    prompt.fused = FusedKv(
        prompt.reuse.policy.value,
        1.0,
        dict(Counter(kind.value for kind in looks)),
        primed_with=prompt.reuse.wants_primed_with,
        computed_whole=why,
    )


def _log_all(prompt: Prompt, notes: Iterable[str]) -> None:
    for note in notes:
        log.info("prompt %d: %s", prompt.id, note)


def _worth_fetching(
    layout: PromptLayout,
    found: Mapping[int, Found],
    ends_s: Mapping[int, float],
    saved_token_s: float,
    busy_s: float,
) -> tuple[dict[int, Found], tuple[str, ...]]:
    """Return what to fetch of what was found, soonest there first, and a note on what is left.

    Each would be in host memory after `ends_s`, a token that is loaded saves `saved_token_s`, and
    the engine is busy with others for `busy_s`.
    """
    order = sorted(found, key=lambda index: ends_s[index])
    choice = choose_loads(
        [ends_s[index] for index in order],
        [saved_token_s * layout.chunks[index].tokens for index in order],
        busy_s,
    )
    fetched = {index: found[index] for index in order[: choice.loads]}
    if len(fetched) == len(found):
        return fetched, ()
    note = (
        f"{len(found) - len(fetched)} of {len(found)} stored chunks were prefilled, not "
        f"loaded: the prompt was predicted to be in after {choice.predicted_s:.3g} s so, "
        f"and after {choice.all_loaded_s:.3g} s with all of them loaded"
    )
    return fetched, (note,)
