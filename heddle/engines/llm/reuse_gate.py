"""Whether a model's stored keys may be used at another position: tried when it is loaded."""

from typing import Final

import numpy as np

from heddle.engines.llm.step_batch import BatchRow, SlotLoad, StepBatch
from heddle.engines.llm.worker import TransformersWorker
from heddle.kv.rows import RowSegment, SlotRun

_TOKENS: Final = 12
_DISTANCE: Final = 37
_TOLERANCE: Final = {4: 1e-4, 2: 2e-2}  # by the bytes of a number: what rounding alone may do


def keys_can_be_turned(worker: TransformersWorker) -> bool:
    """Compute a few tokens at two places and compare the keys, one's turned to the other's.

    Attention depends on distances alone, so a text that is moved as a whole keeps its values, and
    its keys differ by a rotation: if not, stored KV can't be reused elsewhere.

    Mutates: writes KV into the first slots of the pool, before any sequence owns them.
    """
    slots = np.arange(_TOKENS, dtype=np.int64)
    worker.run(_step(slots, 0))
    stored = worker.export_kv(slots)
    worker.run(_step(slots, _DISTANCE))
    fresh = worker.export_kv(slots)
    worker.load(SlotLoad(slots, stored, 0, _DISTANCE))
    turned = worker.export_kv(slots)
    tolerance = _TOLERANCE[fresh.keys.element_size()]
    pairs = ((turned.keys, fresh.keys), (turned.values, fresh.values))
    return all(
        float((a.float() - b.float()).norm() / b.float().norm()) < tolerance for a, b in pairs
    )


def _step(slots: np.ndarray[tuple[int], np.dtype[np.int64]], start: int) -> StepBatch:
    row = BatchRow(0, _TOKENS, _TOKENS, (SlotRun(0, _TOKENS),), (RowSegment(0, _TOKENS),))
    return StepBatch(slots % 3 + 3, slots + start, slots, (row,))
