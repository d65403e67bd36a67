"""Times a worker's steps, to find how many tokens of a prompt one of them should compute."""

import logging
import statistics
from collections.abc import Iterator
from typing import Final

from heddle.core.ports import Clock
from heddle.engines.llm.engine import LlmWorker
from heddle.engines.llm.step_batch import Draw
from heddle.engines.llm.step_curve import StepPoint, prompt_chunk
from heddle.engines.llm.warm_up import prompt_step

log = logging.getLogger(__name__)
SIZES: Final = tuple(128 << doubled for doubled in range(7))  # 128 to 8,192 tokens
STEP_S_MAX: Final = 0.1  # how long a prompt may keep decodes waiting
REPETITIONS: Final = 3


def measured_chunk(worker: LlmWorker, tokens_max: int, clock: Clock) -> int:
    """Return how many tokens a prompt's step should compute on this device.

    Args:
        worker: computes steps; it has computed some already.
        tokens_max: that a prompt may have; the KV pool holds as many.
        clock: measures.

    Mutates: writes KV into the first slots of the pool, before any sequence owns them.
    """
    chosen = prompt_chunk(_points(worker, tokens_max, clock), STEP_S_MAX)
    log.info(
        "prompts are computed %d tokens a step: %.1f ms each, %d tokens/s",
        *(chosen.tokens, 1e3 * chosen.seconds, chosen.tokens_per_s),
    )
    return chosen.tokens


def _points(worker: LlmWorker, tokens_max: int, clock: Clock) -> Iterator[StepPoint]:
    """Yield the times of larger and larger steps, until one takes longer than any may."""
    for tokens in [size for size in SIZES if size <= tokens_max] or [tokens_max]:
        step = prompt_step(0, tokens, Draw())
        worker.run(step)  # a new size may compile or choose kernels
        taken = []
        for _ in range(REPETITIONS):
            started_s = clock.now_s()
            worker.run(step)
            taken.append(clock.now_s() - started_s)
        seconds = statistics.median(taken)
        yield StepPoint(tokens, seconds)
        if seconds > STEP_S_MAX:
            return
