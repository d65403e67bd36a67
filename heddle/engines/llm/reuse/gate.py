"""Whether a model's stored KV may be reused, and used elsewhere: tried when it is loaded."""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from heddle.engines.llm.model.worker import TransformersWorker
from heddle.engines.llm.step_batch import BatchRow, SlotLoad, StepBatch
from heddle.kv.rows import SharedKeys, SlotRun

_TOKENS: Final = 12
_ASKING: Final = 2  # the last of them, which read the others' keys as those of a shared chunk
_DISTANCE: Final = 37
# By the bytes of a number: more than rounding alone does. In bfloat16 that is 0.018 over 28 layers
# of 1,792, and grows with both; a rotation that is wrong by one token is 0.23 off.
_TOLERANCE: Final = {4: 1e-4, 2: 6e-2}


def reuse_problem(worker: TransformersWorker) -> str | None:
    """Return why this model's stored KV can't be reused, or None where it can.

    Mutates: writes KV into the first slots of the pool, before any sequence owns them.
    """
    if not keys_can_be_rotated(worker):
        return "this model's keys can't be rotated to another position"
    if not tokens_can_be_left_out(worker):
        return "this model computes something else where it is given some tokens' KV"
    return None


def keys_can_be_rotated(worker: TransformersWorker) -> bool:
    """Compute a few tokens at two places and compare the keys, one's rotated to the other's.

    Attention depends on distances alone, so a text that is moved as a whole keeps its values, and
    its keys differ by a rotation: if not, stored KV can't be reused elsewhere. Both ways to use it
    are tried: keys copied and rotated, and keys that are read as they were stored.

    Mutates: writes KV into the first slots of the pool, before any sequence owns them.
    """
    slots = np.arange(_TOKENS, dtype=np.int64)
    worker.run(_step(slots, 0))
    stored = worker.export_kv(slots)
    worker.run(_step(slots, _DISTANCE))
    fresh = worker.export_kv(slots)
    worker.load(SlotLoad(slots, stored, 0, _DISTANCE))
    rotated = worker.export_kv(slots)
    worker.load(SlotLoad(slots, stored, 0, 0))
    worker.run(_reading_step(_DISTANCE))
    reading = worker.export_kv(slots[-_ASKING:])
    return (
        _are_close(rotated.keys, fresh.keys)
        and _are_close(rotated.values, fresh.values)
        and _are_close(reading.keys, fresh.keys[:, :, -_ASKING:])
        and _are_close(reading.values, fresh.values[:, :, -_ASKING:])
    )


def tokens_can_be_left_out(worker: TransformersWorker) -> bool:
    """Compute some tokens over the exact KV of the others and compare with computing all.

    Mutates: as `reuse_problem`.
    """
    slots = np.arange(_TOKENS, dtype=np.int64)
    whole = worker.hidden_states(_step(slots, 0))
    some = slots[slots % 3 > 0]
    return _are_close(worker.hidden_states(_step(some, 0)), whole[some])


def _are_close(a: Tensor, b: Tensor) -> bool:
    distance = float((a.float() - b.float()).norm() / b.float().norm())
    return distance < _TOLERANCE[b.element_size()]


def _step(places: NDArray[np.int64], start: int) -> StepBatch:
    """Return a step that computes some places of a short text, which begins at `start`."""
    row = BatchRow(
        query_start=0,
        query_stop=len(places),
        context=_TOKENS,
        runs=(SlotRun(0, _TOKENS),),
        places=places,
    )
    return StepBatch(places % 3 + 3, places + start, places, (row,))


def _reading_step(distance: int) -> StepBatch:
    """Return a step of the last tokens of that text, which reads the others' keys at a distance."""
    places = np.arange(_TOKENS - _ASKING, _TOKENS, dtype=np.int64)
    others = np.arange(_TOKENS - _ASKING, dtype=np.int64)
    chunk = SharedKeys(others, others, rotation=distance)
    own = (SlotRun(len(others), _ASKING),)
    row = BatchRow(0, _ASKING, _TOKENS, own, shared=(chunk,))
    return StepBatch(places % 3 + 3, places + distance, places, (row,))
