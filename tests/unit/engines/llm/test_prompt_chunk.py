"""The chunk of prompts comes from steps that were timed."""

from dataclasses import replace

import pytest

from heddle.engines.llm.build import with_measured_chunk
from heddle.engines.llm.engine import LlmSpec
from heddle.engines.llm.prompt_chunk import REPETITIONS, SIZES, measured_chunk
from heddle.engines.llm.scheduler import SchedulerLimits
from heddle.engines.llm.step_batch import StepResult


class TimedWorker:
    """Takes for a step what a device takes that `idle` tokens don't fill; its own clock."""

    def __init__(self, call_s, token_s, idle):
        self.time_s, self.sizes = 0.0, []
        self._call_s, self._token_s, self._idle = call_s, token_s, idle

    def now_s(self):
        return self.time_s

    def run(self, batch):
        assert batch.slots.tolist() == list(range(batch.tokens))
        self.sizes.append(batch.tokens)
        first_s = 10.0 if self.sizes.count(batch.tokens) == 1 else 0.0  # compiles
        self.time_s += first_s + self._call_s + self._token_s * max(0, batch.tokens - self._idle)
        return StepResult((0,))


@pytest.mark.parametrize(
    ("worker", "tokens_max", "chunk", "largest"),
    [
        (TimedWorker(4e-3, 1e-5, 400), 1 << 20, 512, 8192),
        (TimedWorker(4e-3, 1e-4, 0), 1 << 20, 256, 1024),  # 1,024 tokens take over 0.1 s
        (TimedWorker(4e-3, 1e-5, 400), 600, 512, 512),  # a short context
        (TimedWorker(4e-3, 1e-5, 400), 50, 50, 50),
    ],
)
def test_a_chunk_by_steps_that_were_timed(worker, tokens_max, chunk, largest):
    assert measured_chunk(worker, tokens_max, worker) == chunk
    assert max(worker.sizes) == largest
    timed = [size for size in SIZES if size <= largest] or [largest]
    assert worker.sizes == [size for size in timed for _ in range(1 + REPETITIONS)]


def test_an_engine_takes_the_chunk_but_never_less_than_its_decodes():
    worker = TimedWorker(4e-3, 1e-5, 400)
    limits = SchedulerLimits(16, 512, 16, 100, 1600)
    spec = LlmSpec(limits, frozenset(), "tiny", 1, {})
    assert with_measured_chunk(spec, worker, worker).limits.max_num_batched_tokens == 512
    many = replace(spec, limits=replace(limits, max_num_seqs=600, max_num_batched_tokens=600))
    assert with_measured_chunk(many, worker, worker).limits.max_num_batched_tokens == 600
