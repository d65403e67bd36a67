"""The answers that are kept, by their questions' texts and vectors, within bounds. (ADR 44)"""

from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.runtime.kept_answer import KeptAnswer
from heddle.runtime.question_match import asks_the_same

NEAREST: Final = 8  # of the similar questions, those that are looked at
SWEEP_S: Final = 60.0
ROWS_AT_FIRST: Final = 64


class DropReason(Enum):
    """Why an answer is no longer kept."""

    CHANGED = "changed"  # a passage was changed or deleted, or others are found now
    EXPIRED = "expired"
    EVICTED = "evicted"  # for newer ones


@dataclass(frozen=True, slots=True)
class AnswerCacheLimits:
    """Bounds of an answer cache: answers, about their bytes, and their age [s]."""

    entries_max: int = 1000
    bytes_max: int = 64 << 20
    age_s_max: float = 86_400.0


@dataclass(frozen=True, slots=True)
class AnswerCacheState:
    """The size of an answer cache, and the answers dropped so far, by `DropReason`."""

    entries: int
    nbytes: int
    dropped: Mapping[str, int]


@dataclass(slots=True)
class QuestionRows:
    """Questions' vectors as the rows of one matrix, which grows by doubling.

    Mutates: `add` and `remove`; a row that is free is used again.
    """

    _rows: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    _scopes: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    _key_of: dict[int, tuple[Hashable, str]] = field(default_factory=dict)
    _row_of: dict[tuple[Hashable, str], int] = field(default_factory=dict)
    _free: list[int] = field(default_factory=list)

    def nearest(
        self, scope: Hashable, vector: NDArray[np.float32], cosine_min: float
    ) -> list[tuple[tuple[Hashable, str], float]]:
        """Return the nearest questions of a scope, and their cosines, the nearest first."""
        if not self._row_of:
            return []
        cosines = self._rows @ vector
        near = np.flatnonzero((cosines >= cosine_min) & (self._scopes == hash(scope)))
        near = near[np.argsort(-cosines[near], kind="stable")]
        found = [(self._key_of[row], row) for row in near.tolist() if row in self._key_of]
        # Two scopes may have one hash.
        own = [(key, row) for key, row in found if key[0] == scope][:NEAREST]
        return [(key, min(1.0, float(cosines[row]))) for key, row in own]

    def add(self, key: tuple[Hashable, str], vector: NDArray[np.float32]) -> None:
        """Add a question that is not there."""
        if not self._free:
            self._grow(len(vector))
        row = self._free.pop()
        self._rows[row], self._scopes[row] = vector, hash(key[0])
        self._key_of[row], self._row_of[key] = key, row

    def remove(self, key: tuple[Hashable, str]) -> None:
        """Remove a question; one that was found by its text alone has no row."""
        row = self._row_of.pop(key, None)
        if row is not None:
            del self._key_of[row]
            self._rows[row] = 0.0
            self._free.append(row)

    def _grow(self, dims: int) -> None:
        held = len(self._rows)
        size = max(ROWS_AT_FIRST, 2 * held)
        rows, scopes = np.zeros((size, dims), np.float32), np.zeros(size, np.int64)
        rows[:held], scopes[:held] = self._rows.reshape(held, dims), self._scopes
        self._rows, self._scopes = rows, scopes
        self._free.extend(range(size - 1, held - 1, -1))


@dataclass(slots=True)
class AnswerCache:
    """Kept answers, the least recently used dropped first.

    Mutates: every method but `state`; only the runtime's thread may call them.
    """

    limits: AnswerCacheLimits = field(default_factory=AnswerCacheLimits)
    nbytes: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    _kept: OrderedDict[tuple[Hashable, str], KeptAnswer] = field(default_factory=OrderedDict)
    _resting: dict[int, set[tuple[Hashable, str]]] = field(default_factory=dict)
    _questions: QuestionRows = field(default_factory=QuestionRows)
    _swept_s: float = 0.0

    @property
    def state(self) -> AnswerCacheState:
        """Its size, and the answers dropped so far."""
        dropped = {reason.value: self.dropped[reason.value] for reason in DropReason}
        return AnswerCacheState(len(self._kept), self.nbytes, dropped)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is kept."""
        return not self._kept

    def equal(self, scope: Hashable, question: str, now_s: float) -> KeptAnswer | None:
        """Return the answer to a question of the same text."""
        return self._used((scope, question), now_s)

    def similar(
        self,
        scope: Hashable,
        question: str,
        vector: NDArray[np.float32],
        cosine_min: float,
        now_s: float,
    ) -> tuple[KeptAnswer, float] | None:
        """Return the answer to the nearest similar question, and the cosine of the two.

        Its words must not tell them apart. That the passages held no answer says nothing of a
        question in other words, so such an answer isn't returned.

        Shapes: vector [d] float32, of length 1.
        """
        for key, cosine in self._questions.nearest(scope, vector, cosine_min):
            kept = self._kept[key]
            if not kept.is_declined and asks_the_same(question, kept.question):
                used = self._used(key, now_s)
                if used is not None:
                    return used, cosine
        return None

    def put(self, kept: KeptAnswer, now_s: float) -> None:
        """Keep an answer in the place of an earlier one; one that is too large alone isn't kept."""
        if kept.nbytes > self.limits.bytes_max:
            return
        key = kept.scope, kept.question
        if key in self._kept:
            self._remove(key)
        self._sweep(now_s)
        self._kept[key] = kept
        self.nbytes += kept.nbytes
        for chunk_id in kept.chunk_ids:
            self._resting.setdefault(chunk_id, set()).add(key)
        while len(self._kept) > self.limits.entries_max or self.nbytes > self.limits.bytes_max:
            self.drop(next(iter(self._kept.values())), DropReason.EVICTED)
        if kept.vector is not None:
            self._questions.add(key, kept.vector)

    def drop(self, kept: KeptAnswer, reason: DropReason) -> None:
        """Forget an answer, and count why; one that has gone already is left alone."""
        key = kept.scope, kept.question
        if self._kept.get(key) is kept:
            self._remove(key)
            self.dropped[reason.value] += 1

    def forget_chunks(self, chunk_ids: Iterable[int]) -> None:
        """Drop every answer whose searches found one of these chunks."""
        for chunk_id in chunk_ids:
            for key in tuple(self._resting.get(chunk_id, ())):
                self.drop(self._kept[key], DropReason.CHANGED)

    def _used(self, key: tuple[Hashable, str], now_s: float) -> KeptAnswer | None:
        kept = self._kept.get(key)
        if kept is None:
            return None
        if now_s - kept.kept_s > self.limits.age_s_max:
            self.drop(kept, DropReason.EXPIRED)
            return None
        self._kept.move_to_end(key)
        return kept

    def _sweep(self, now_s: float) -> None:
        """Drop what has expired, also where it isn't asked for again."""
        if now_s - self._swept_s < min(SWEEP_S, self.limits.age_s_max):
            return
        self._swept_s = now_s
        for kept in tuple(self._kept.values()):
            if now_s - kept.kept_s > self.limits.age_s_max:
                self.drop(kept, DropReason.EXPIRED)

    def _remove(self, key: tuple[Hashable, str]) -> None:
        kept = self._kept.pop(key)
        self.nbytes -= kept.nbytes
        self._questions.remove(key)
        for chunk_id in kept.chunk_ids:
            self._resting[chunk_id].discard(key)
            if not self._resting[chunk_id]:
                del self._resting[chunk_id]
