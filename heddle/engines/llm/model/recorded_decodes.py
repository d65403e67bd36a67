"""Steps that only decode, recorded once for each number of rows and replayed with other inputs.

A decode of a small model is hundreds of short kernels, and a GPU waits for the host that launches
them. A recording (a CUDA graph) launches all of them at once. Its inputs have to lie where they lay
when it was recorded, and its kernels keep their sizes. So each step's inputs are copied into
tensors that stay, and programs that a step doesn't need have nothing to do.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from torch import Tensor

from heddle.engines.llm.attention import tiles
from heddle.engines.llm.attention.context import AttentionContext
from heddle.engines.llm.attention.row_keys import ITEM_FIELDS
from heddle.engines.llm.attention.triton_rows import Launch, QueryRotations, RaggedPlan
from heddle.engines.llm.step_batch import BatchRow, Draw, StepBatch
from heddle.kernels.cuda_recorder import Recorder
from heddle.kv.page_store import PageStore
from heddle.kv.rows import SharedKeys, SlotRun

KEYS_MAX: Final = 1 << 22  # of all rows of a recorded step: 32 MiB say where they lie
GROUPS_MAX: Final = 64  # of a row's keys, on average: its own, and of each chunk in shared pages
DISTANCES_MAX: Final = 512  # between where keys are stored and where they are used, in one step

Outputs = tuple[Tensor, Tensor]  # hidden [t, hidden], logits [t, vocabulary]
Compute = Callable[[Tensor, Tensor, AttentionContext], Outputs]
"""Tokens [t], positions [t] and what the attention must know -> what follows each token."""


@dataclass(frozen=True, slots=True, eq=False)
class StepInputs:
    """What recordings read, with room for the largest step.

    Shapes: tokens, positions and slots [rows] int64; the plan's as of `RaggedPlan`, for one launch.
    """

    tokens: Tensor
    positions: Tensor
    slots: Tensor
    plan: RaggedPlan

    @classmethod
    def empty(
        cls, store: PageStore, heads: int, tiling: tiles.Tiling, rows: int, context_max: int
    ) -> "StepInputs":
        """Return room for this many rows of at most this context."""
        device, kv_heads = store.device, store.shape.kv_heads
        programs = math.ceil(tiles.PROGRAMS_PER_ROW / kv_heads)
        parts = min(programs, math.ceil(context_max / tiles.PART_KEYS_MIN))
        keys = min(rows * context_max, KEYS_MAX)

        def room(*size: int, dtype: torch.dtype = torch.int32) -> Tensor:
            return torch.zeros(size, dtype=dtype, device=device)

        launch = Launch(
            tiling,
            room(rows * parts, ITEM_FIELDS),
            room(rows * (parts + GROUPS_MAX), 4),
            room(rows, 4),
            rows * parts,
        )
        numbers = (DISTANCES_MAX, store.shape.head_dim)
        rotations = QueryRotations(
            room(store.shape.head_dim),
            room(*numbers, dtype=torch.float32),
            room(*numbers, dtype=torch.float32),
        )
        plan = RaggedPlan(heads, room(keys), room(keys), room(rows), rotations, (launch,))
        tokens, positions, slots = (room(rows, dtype=torch.int64) for _ in range(3))
        return cls(tokens, positions, slots, plan)

    def fill(self, batch: StepBatch, plan: RaggedPlan) -> None:
        """Copy a step's inputs in; programs, spans and merges beyond them have nothing to do."""
        rows, (launch,), (own,) = len(batch.rows), plan.launches, self.plan.launches
        for room, numbers in (
            (self.tokens, batch.token_ids),
            (self.positions, batch.positions),
            (self.slots, batch.slots),
        ):
            room[:rows].copy_(torch.from_numpy(numbers))
        pairs = [
            (self.plan.slots, plan.slots),
            (self.plan.key_places, plan.key_places),
            (self.plan.places, plan.places),
            (own.spans, launch.spans),
        ]
        if plan.query_rotations is not None:
            mine, theirs = self.plan.query_rotations, plan.query_rotations
            assert mine is not None, "there is no room for rotations"
            pairs += [
                (mine.partner, theirs.partner),
                (mine.own_part, theirs.own_part),
                (mine.partner_part, theirs.partner_part),
            ]
        for room, found in pairs:
            room[: len(found)].copy_(found)
        for room, found in ((own.items, launch.items), (own.merges, launch.merges)):
            room.zero_()
            room[: len(found)].copy_(found)

    def plan_of(self, rows: int, *, is_rotated: bool) -> RaggedPlan:
        """Return the plan of all steps of this many rows, with all programs that one may need."""
        (launch,) = self.plan.launches
        parts = launch.parts // len(self.tokens)
        own = replace(
            launch,
            items=launch.items[: rows * parts],
            merges=launch.merges[:rows],
            parts=rows * parts,
        )
        rotations = self.plan.query_rotations if is_rotated else None
        return replace(self.plan, query_rotations=rotations, launches=(own,))

    def have_room_for(self, plan: RaggedPlan) -> bool:
        """Whether a step's plan fits in."""
        (launch,), (own,) = plan.launches, self.plan_of(len(plan.places), is_rotated=True).launches
        rotations, room = plan.query_rotations, self.plan.query_rotations
        fits = (
            len(plan.slots) <= len(self.plan.slots)
            and len(launch.spans) <= len(own.spans)
            and len(launch.items) <= len(own.items)
        )
        if rotations is None or room is None:
            return fits
        return fits and len(rotations.own_part) <= len(room.own_part)


class RecordedDecodes:
    """Recordings of steps in which each row draws one token behind one.

    Args:
        compute: what is recorded.
        store: the KV pool.
        heads: of the queries.
        recorder: records.
        tiling: of the plans' decodes.
        rows_max: most rows of a step.
        context_max: most tokens of a row.
    """

    def __init__(
        self,
        compute: Compute,
        store: PageStore,
        heads: int,
        recorder: Recorder,
        *,
        tiling: tiles.Tiling,
        rows_max: int,
        context_max: int,
    ) -> None:
        self._compute, self._recorder = compute, recorder
        self._inputs = StepInputs.empty(store, heads, tiling, rows_max, context_max)
        self._recordings: dict[tuple[int, bool], tuple[Outputs, Callable[[], None]]] = {}

    def record(self, batch: StepBatch, context: AttentionContext) -> None:
        """Record steps of as many rows as this one has, over keys that are stored elsewhere or not.

        Mutates: writes the KV of the step's tokens.
        """
        plan, inputs, rows = context.ragged, self._inputs, len(batch.rows)
        assert plan is not None, "only steps of the kernel are recorded"
        assert self._is_recordable(batch, plan), "this step can't be recorded"
        inputs.fill(batch, plan)
        is_rotated = plan.query_rotations is not None
        kept = replace(
            context,
            slots=inputs.slots[:rows],
            runs=(),
            ragged=inputs.plan_of(rows, is_rotated=is_rotated),
        )
        tokens, positions = inputs.tokens[:rows], inputs.positions[:rows]
        self._recordings[rows, is_rotated] = self._recorder.record(
            lambda: self._compute(tokens, positions, kept)
        )

    def run(self, batch: StepBatch, plan: RaggedPlan) -> Outputs | None:
        """Return what follows each token; None where the step isn't one of those recorded.

        The next call overwrites it.
        """
        is_rotated = plan.query_rotations is not None
        recording = self._recordings.get((len(batch.rows), is_rotated))
        if recording is None or not self._is_recordable(batch, plan):
            return None
        self._inputs.fill(batch, plan)
        outputs, replay = recording
        replay()
        return outputs

    def _is_recordable(self, batch: StepBatch, plan: RaggedPlan) -> bool:
        decodes = all(
            row.queries == 1 and row.draw is not None and row.measure is None for row in batch.rows
        )
        return (
            decodes
            and len(plan.launches) == 1
            and plan.launches[0].tiling == self._inputs.plan.launches[0].tiling
            and self._inputs.have_room_for(plan)
        )


def sample_decodes(rows: int, *, is_rotated: bool) -> StepBatch:
    """Return a step of this many decodes over one key each, stored elsewhere or not."""
    own = []
    for row in range(rows):
        key, token = SlotRun(2 * row, 1), SlotRun(2 * row + 1, 1)
        if is_rotated:
            shared = (SharedKeys(np.zeros(1, np.int64), np.asarray([key.start]), None, 1),)
            own.append(BatchRow(row, row + 1, 2, (token,), Draw(), shared=shared))
        else:
            own.append(BatchRow(row, row + 1, 2, (SlotRun(key.start, 2),), Draw()))
    places = np.ones(rows, dtype=np.int64)
    return StepBatch(np.zeros(rows, np.int64), places, 2 * np.arange(rows) + 1, tuple(own))
