"""Prompts of random tokens that show chunks of one pool, as retrieval does."""

import itertools
from collections.abc import Iterator
from typing import Final

import numpy as np

from benchmarks.support.engine_driver import Prompt
from benchmarks.support.random_llama import random_tokens
from heddle.core.payloads import Segment, SegmentRole

PREFIX_TOKENS: Final = 32
QUESTION_TOKENS: Final = 64
ZIPF: Final = 0.75  # that of RAGPulse's passages


def zipf_prompts(
    pool: int, chunk_tokens: int, chunks: int, seed: int, repetition: int = 0
) -> Iterator[Prompt]:
    """Draw prompts without end: chunks by their popularity, a question of its own for each."""
    rng = np.random.default_rng((seed, 1, repetition))
    weights = 1 / np.arange(1, pool + 1) ** ZIPF
    texts = [random_tokens(chunk_tokens, seed, 2, number) for number in range(pool)]
    prefix = Segment(random_tokens(PREFIX_TOKENS, seed, 3))
    for number in itertools.count():
        drawn = rng.choice(pool, chunks, replace=False, p=weights / weights.sum())
        question = Segment(random_tokens(QUESTION_TOKENS, seed, 4, repetition, number))
        yield (prefix, *(Segment(texts[i], SegmentRole.CHUNK) for i in drawn), question)
