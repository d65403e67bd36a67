"""Lessons as token ids of a prompt and its answer, and steps of about equally many tokens."""

import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from extractor_training.rows import Passage

from heddle.app.models.smollm2 import AFTER_QUESTION, BEFORE_PASSAGES, BEFORE_QUESTION
from heddle.engines.llm.text.prompt_tokenizer import PromptTokenizer
from heddle.evals.question import given_passage

from .lessons import Lesson

SHORTEST, LONGEST = 250, 1_400  # tokens of passages
EARLY_LONGEST = 500  # before the first step; it grows until half of a run
SINGLES_PER_EPOCH = 1_200
END_OF_TURN = 2  # <|im_end|> of SmolLM2


@dataclass(frozen=True, slots=True)
class Sample:
    """Token ids; those from `answer_start` on are what is learned."""

    ids: tuple[int, ...]
    answer_start: int


@dataclass(frozen=True, slots=True)
class Place:
    """How far training has come in its endless list: an epoch, and the lessons taken from it."""

    epoch: int = 0
    taken: int = 0


def sample_of(
    tokenizer: PromptTokenizer, lesson: Lesson, tokens_max: int, rng: random.Random
) -> Sample:
    """Draw the passages beside those that answer, as many as fit, and shuffle them all."""
    others = list(lesson.others)
    rng.shuffle(others)
    shown = list(lesson.gold)
    tokens = sum(_tokens(tokenizer, passage) for passage in shown)
    for passage in others:
        tokens += _tokens(tokenizer, passage)
        if tokens > tokens_max:
            break
        shown.append(passage)
    rng.shuffle(shown)
    return prompted(tokenizer, lesson, shown)


def prompted(tokenizer: PromptTokenizer, lesson: Lesson, shown: Sequence[Passage]) -> Sample:
    """The prompt that SmolLM2 is asked with, and the answer to it."""
    passages = (given_passage(p.key, p.title, p.text) for p in shown)
    parts = (BEFORE_PASSAGES, *passages, BEFORE_QUESTION, lesson.question + AFTER_QUESTION)
    ids = [i for segment in tokenizer.encode_prompt(parts) for i in segment.token_ids or ()]
    answer = (*tokenizer.encode_slot(lesson.answer.strip()), END_OF_TURN)
    return Sample((*ids, *answer), len(ids))


def epoch_order(lessons: Sequence[Lesson], seed: int, epoch: int) -> list[Lesson]:
    """The lessons of an epoch: all that take several passages, and a draw of the others."""
    rng = random.Random(f"{seed}/{epoch}")
    singles = [one for one in lessons if not one.is_multihop]
    order = [one for one in lessons if one.is_multihop]
    order += rng.sample(singles, min(SINGLES_PER_EPOCH, len(singles)))
    rng.shuffle(order)
    return order


def steps(
    tokenizer: PromptTokenizer,
    lessons: Sequence[Lesson],
    start: Place,
    share: float,
    n_tokens: int,
    seed: int,
) -> Generator[tuple[list[Sample], Place], float]:
    """Yield endlessly the samples of a step, and the place behind them.

    share: of the run that is done, in [0, 1]; the more, the longer the prompts. Send the next one.
    """
    epoch, taken = start.epoch, start.taken
    step: list[Sample] = []
    while True:
        for lesson in epoch_order(lessons, seed, epoch)[taken:]:
            taken += 1
            rng = random.Random(f"{seed}/{epoch}/{lesson.key}")
            longest = EARLY_LONGEST + (LONGEST - EARLY_LONGEST) * min(1.0, 2 * share)
            tokens_max = int(rng.uniform(SHORTEST, longest))
            step.append(sample_of(tokenizer, lesson, tokens_max, rng))
            if sum(len(sample.ids) for sample in step) >= n_tokens:
                share = yield step, Place(epoch, taken)
                step = []
        epoch, taken = epoch + 1, 0


def _tokens(tokenizer: PromptTokenizer, passage: Passage) -> int:
    return len(tokenizer.encode_slot(passage.text))
