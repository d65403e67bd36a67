"""Priming: prompts that compute one chunk's KV to be stored, before anyone asks for it."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from heddle.core.kv_reuse import KvReuse, PrimedWith, ReusePolicy
from heddle.core.payloads import Segment, SegmentRole
from heddle.core.results import Primed
from heddle.engines.llm.fusion.attention_log import AttentionLog
from heddle.engines.llm.fusion.prompt_layout import layout_of
from heddle.engines.llm.reuse.fuser import Fuser
from heddle.engines.llm.sequence import Capture, Priming
from heddle.engines.llm.sequence import Sequence as Prompt

AS_STORED = KvReuse(ReusePolicy.FULL_REUSE, ratio=0.0, primed=False)


class Primer:
    """Starts priming prompts and reports when a chunk's KV lies on disk. (FusionRAG §3.1)

    The neighbours' raw KV is reused as it is; a neighbour that isn't stored is computed in its
    place. Keys are stored as computed, behind the neighbours. The entry records their position,
    and a prompt that reuses it rotates them from there.

    Mutates: a prompt's `purpose`, and what fusion changes of it.
    """

    def __init__(self, fuser: Fuser) -> None:
        self._fuser = fuser
        self._wake: Callable[[], None] = _no_subscriber
        self._storing: dict[int, Primed] = {}  # by the prompt's id
        self._written: deque[tuple[int, str | None]] = deque()  # from the store's own threads

    @property
    def has_ended(self) -> bool:
        """Whether `ended` has something to tell."""
        return bool(self._written)

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from any thread, whenever `has_ended` has become true."""
        self._wake = wake

    def begin(self, prompt: Prompt, primed_with: PrimedWith, now_s: float) -> Primed | None:
        """Look for the neighbours' KV; return the result at once where the chunk's is stored.

        `primed_with` says which chunks the prompt's neighbours are.

        Raises: StorageError: the corpus can't say which of them are deleted.
        """
        layout = layout_of(prompt.segments)
        assert layout is not None, "a priming prompt has no chunk"
        assert not layout.has_question, "a priming prompt doesn't end with its chunk"
        keys = self._fuser.keys_of(prompt.token_ids, prompt.salt, layout)
        neighbours = len(layout.chunks) - 1
        chunk = layout.chunks[neighbours]
        if neighbours:
            record = keys.primed_record(neighbours, chunk.start, primed_with)
        else:
            record = keys.canonical_record(neighbours, chunk.start)
        primed = Primed(chunk.tokens, neighbours, is_new=True)
        if self._fuser.keeps(record):
            return replace(primed, is_new=False)
        prompt.purpose = Priming(primed)
        prompt.reuse = AS_STORED
        prompt.captures = (Capture(chunk.start, chunk.stop, record),)
        prompt.attention = AttentionLog(layout, [chunk.start])
        wanted = [(keys.canonical_probe(index),) for index in range(neighbours)]
        found = self._fuser.look_up(wanted, now_s)
        self._fuser.fuse(prompt, layout, keys, found, now_s)
        return None

    def store(self, prompt: Prompt, now_s: float) -> None:
        """Have the KV of a prompt's chunk written, now that it is computed.

        Raises: StorageError: the corpus can't say which chunks are deleted; `ended` has nothing
            of this prompt.
        """
        assert isinstance(prompt.purpose, Priming), "an ordinary prompt primes no chunk"
        [capture] = prompt.captures
        self._fuser.store(prompt, capture, now_s, partial(self._end, prompt.id))
        self._storing[prompt.id] = prompt.purpose.primed  # `ended` is of the same thread

    def ended(self) -> list[tuple[int, Primed, str | None]]:
        """Hand out the prompts whose KV is on disk, or else why it isn't."""
        ended = []
        while self._written:
            prompt_id, problem = self._written.popleft()
            primed = self._storing.pop(prompt_id, None)
            if primed is not None:
                ended.append((prompt_id, primed, problem))
        return ended

    def cancel(self, prompt_id: int) -> bool:
        """Stop waiting for a chunk that is being written; whether it was."""
        return self._storing.pop(prompt_id, None) is not None

    def _end(self, prompt_id: int, problem: str | None) -> None:
        self._written.append((prompt_id, problem))
        self._wake()


def fitting(segments: Sequence[Segment], tokens_max: int) -> tuple[Segment, ...]:
    """Return a priming prompt with as many of its neighbours as fit, those next to the chunk."""
    kept = list(segments)
    first = next(i for i, segment in enumerate(kept) if segment.role is SegmentRole.CHUNK)
    tokens = sum(len(segment.token_ids or ()) for segment in kept)
    while tokens > tokens_max and first < len(kept) - 1:
        tokens -= len(kept.pop(first).token_ids or ())
    return tuple(kept)


def _no_subscriber() -> None:
    """Stand in for a subscriber until there is one."""
