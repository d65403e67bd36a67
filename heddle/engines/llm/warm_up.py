"""A worker's first steps, before anyone waits for them."""

from typing import Final

import numpy as np

from heddle.engines.llm.engine import LlmWorker
from heddle.engines.llm.step_batch import BatchRow, Draw, StepBatch
from heddle.kv.rows import SlotRun

# [start, stop) of one prompt and how its next token is drawn: a whole prompt, a chunk that
# continues it, a decode. Each kind of step has kernels of its own.
STEPS: Final = (
    (0, 8, None),
    (8, 16, Draw()),
    (16, 17, Draw(temperature=1.0, top_p=0.9, uniform=0.5)),
)
# Few queries and many keys: the attention kernel cuts these into parts. What the keys are doesn't
# matter, so nothing is drawn.
KERNEL_STEPS: Final = ((512, 544, None), (544, 545, None))


def warm_up(worker: LlmWorker, context_tokens_max: int, *, has_kernel: bool = False) -> None:
    """Run a small step of each kind, and of each kind that the attention kernel distinguishes.

    The first step loads kernels and starts threads. On CUDA that takes seconds: a step that long
    would look hung, and would mislead the cost model from its first sample on.

    Mutates: writes KV into the first slots of the pool, before any sequence owns them.
    """
    for start, stop, draw in STEPS + (KERNEL_STEPS if has_kernel else ()):
        if stop <= context_tokens_max:
            worker.run(prompt_step(start, stop, draw))


def prompt_step(start: int, stop: int, draw: Draw | None) -> StepBatch:
    """Return a step that computes tokens [start, stop) of a prompt, in the pool's first slots."""
    tokens = stop - start
    positions = np.arange(start, stop, dtype=np.int64)
    row = BatchRow(0, tokens, stop, (SlotRun(0, stop),), draw)
    return StepBatch(np.zeros(tokens, dtype=np.int64), positions, positions, (row,))
