"""One step as it was decided: which tokens of which sequences, and the arrays for the worker."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heddle.engines.llm.fusion.asked_questions import Asking
from heddle.engines.llm.sequence import Sequence
from heddle.engines.llm.step_batch import (
    BatchRow,
    LastQueries,
    Measure,
    SlotLoad,
    SpanAttention,
    StepBatch,
    TokenScores,
    ValueDeviation,
)
from heddle.kv.chunk_pages import SharedPages


@dataclass(frozen=True, slots=True)
class Slice:
    """Tokens [start, stop) of a sequence in one step; `samples`: its next token is drawn.

    While a prompt is fused (`is_fused`) they are counted among the positions of its present sweep.
    The tokens of `draft` are computed behind them, and what follows each is drawn, too: the
    sequence has only those of them that turn out to be its own.
    """

    sequence: Sequence
    start: int
    stop: int
    samples: bool
    draft: tuple[int, ...] = ()
    is_fused: bool = False

    @property
    def positions(self) -> NDArray[np.int64]:
        """Where the tokens stand, drafted ones last. Shapes: [queries] int64, ascending."""
        fusion = self.sequence.fusing
        if fusion is not None:
            return fusion.now.positions[self.start : self.stop]
        return np.arange(self.start, self.start + self.queries, dtype=np.int64)

    @property
    def queries(self) -> int:
        """Tokens that the step computes for it."""
        return self.stop - self.start + len(self.draft)

    @property
    def token_ids(self) -> list[int]:
        """These tokens."""
        known = self.sequence.token_ids
        kept = self.positions[: self.stop - self.start].tolist()
        return [*(known[place] for place in kept), *self.draft]

    @property
    def is_decode(self) -> bool:
        """Whether its next token is drawn behind one token, and drafted ones."""
        return self.samples and self.stop - self.start == 1

    @property
    def is_checked(self) -> bool:
        """Whether the tokens go through the first layers only."""
        fusion = self.sequence.fusing
        return fusion is not None and fusion.now.checks


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One step: the slices, and the same as arrays for the worker."""

    slices: tuple[Slice, ...]
    batch: StepBatch

    @classmethod
    def of(cls, slices: Iterable[Slice]) -> "StepPlan":
        """Return the step of these slices: decodes of one token first, for the worker."""
        # Stable: decodes keep their order. Rows that leave after the first layers come last.
        parts = tuple(sorted(slices, key=lambda part: (part.is_checked, bool(part.draft))))
        return cls(parts, _pack(parts))

    @property
    def features(self) -> dict[str, float]:
        """The counts that the cost model reads."""
        decodes = sum(part.is_decode for part in self.slices)
        fused = [part for part in self.slices if part.is_fused]
        return {
            "call": 1.0,
            "decode_tokens": float(decodes),
            "prefill_tokens": float(self.batch.tokens - self.batch.checked_tokens - decodes),
            "checked_tokens": float(self.batch.checked_tokens),
            "context_tokens": float(sum(row.context for row in self.batch.rows)),
            "fused_rows": float(len(fused)),
            "fused_tokens": float(sum(p.queries for p in fused) - self.batch.checked_tokens),
            "drafted_tokens": float(sum(len(part.draft) for part in self.slices)),
            "drafted_rows": float(sum(part.is_decode and bool(part.draft) for part in self.slices)),
        }


def _pack(slices: tuple[Slice, ...]) -> StepBatch:
    token_ids: list[int] = []
    positions: list[NDArray[np.int64]] = []
    slots: list[NDArray[np.int64]] = []
    rows: list[BatchRow] = []
    loads: list[SlotLoad] = []
    filled: set[SharedPages] = set()
    for part in slices:
        sequence, places = part.sequence, part.positions
        query_start = len(token_ids)
        token_ids.extend(part.token_ids)
        positions.append(places)
        slots.append(sequence.row.slots(places))
        rows.append(_row(part, query_start))
        loads.extend(_copies(part))
        for span in sequence.row.spans:
            if span.pages.block is not None and span.pages not in filled:
                filled.add(span.pages)
                loads.append(SlotLoad(span.pages.slots, span.pages.block, 0, 0))
    return StepBatch(
        np.asarray(token_ids, dtype=np.int64),
        np.concatenate(positions),
        np.concatenate(slots),
        tuple(rows),
        tuple(loads),
    )


def _row(part: Slice, query_start: int) -> BatchRow:
    sequence, fusion = part.sequence, part.sequence.fusing
    decode = sequence.decode if part.samples else None
    draws = () if decode is None else decode.draws(part.draft)
    whole = ((0, part.start + part.queries),)
    visible = fusion.visible(part.stop) if fusion is not None else whole
    return BatchRow(
        query_start=query_start,
        query_stop=query_start + part.queries,
        context=sum(stop - start for start, stop in visible),
        runs=tuple(run for start, stop in visible for run in sequence.row.runs(start, stop)),
        draw=draws[0] if draws else None,
        places=fusion.places(part.start, part.stop) if fusion is not None else None,
        measure=_measure(part),
        shared=sequence.row.shared(visible),
        draft_draws=draws[1:],
    )


def _measure(part: Slice) -> Measure | None:
    sequence, fusion = part.sequence, part.sequence.fusing
    if isinstance(sequence.purpose, Asking):
        return LastQueries()
    if fusion is not None and fusion.now.checks:
        return ValueDeviation()
    if fusion is not None and fusion.now.scored:
        chunks = fusion.now.scored
        return TokenScores(tuple(sequence.row.stored(c.start, c.stop) for c in chunks))
    if sequence.attention is not None and sequence.attention.wants(part.positions):
        return SpanAttention(sequence.attention.spans)
    return None


def _copies(part: Slice) -> list[SlotLoad]:
    """Return the copies that fill a fused row before its first positions are computed."""
    fusion, row = part.sequence.fusing, part.sequence.row
    if fusion is None:
        return []
    return [
        SlotLoad(
            row.slots(np.arange(copy.start, copy.stop)), copy.block, copy.offset, copy.rotation
        )
        for copy in fusion.copies()
    ]
