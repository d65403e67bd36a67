"""The LLM on virtual time, where only lengths count: the time of steps, and a script of texts."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from heddle.engines.llm.step_batch import StepBatch, StepResult
from heddle.simulator.device import SimulatedDevice
from heddle.simulator.scripted.counted_text import next_written


class ScriptedLlmWorker:
    """An LlmWorker that keeps no KV: the next token follows from the last one alone.

    Args:
        device: spends the steps' time.
        costs_s: seconds of `call`, `decode_tokens`, `prefill_tokens` and `context_tokens`, the
            features that an LLM engine reports.
        floor_s: the least that a step takes, such as reading the weights of a GPU's model [s].
    """

    def __init__(
        self, device: SimulatedDevice, costs_s: Mapping[str, float], floor_s: float = 0.0
    ) -> None:
        self._device, self._costs_s, self._floor_s = device, costs_s, floor_s

    def run(self, batch: StepBatch) -> StepResult:
        """Compute one step."""
        costs_s = self._costs_s
        decodes = sum(0 < row.queries == len(row.draws) for row in batch.rows)
        tokens_s = costs_s["decode_tokens"] * decodes
        tokens_s += costs_s["prefill_tokens"] * (batch.tokens - decodes)
        context_s = costs_s["context_tokens"] * sum(row.context for row in batch.rows)
        self._device.run(costs_s["call"] + max(self._floor_s, tokens_s) + context_s)
        draws = [
            (int(batch.token_ids[place]), draw)
            for row in batch.rows
            for place, draw in enumerate(row.draws, row.query_stop - len(row.draws))
        ]
        drawn = tuple(next_written(token_id) for token_id, _ in draws)
        wanted = tuple(1.0 for _, draw in draws if draw.wants_probability)
        return StepResult(drawn, probabilities=wanted)

    def pack_kv(
        self, slots: NDArray[np.int64], rotations: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.generic], ...]:
        """Return nothing: there is no KV. Shapes: slots [n] int64."""
        return ()

    def load_kv(self, slots: NDArray[np.int64], block: tuple[NDArray[np.generic], ...]) -> None:
        """Do nothing: there is no KV. Shapes: slots [n] int64."""
