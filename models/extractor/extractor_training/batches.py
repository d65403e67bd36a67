"""Lessons as token windows, and steps of about equally many tokens."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer

from .answer_spans import Span
from .span_loss import SPAN_MAX
from .span_model import PackedTokens
from .training_list import Lesson
from .windows import Window, token_spans, windows_of

TRAINED_WINDOW = 256  # tokens


@dataclass(frozen=True, slots=True)
class Exercise:
    """A question's windows, one of its own passage first, and the answer's tokens in each."""

    windows: list[Window]
    spans: list[list[Span]]

    @property
    def n_tokens(self) -> int:
        """Tokens of all windows."""
        return sum(len(window.ids) for window in self.windows)


@dataclass(frozen=True, slots=True)
class Place:
    """How far training has come in its endless list: an epoch, and the lessons taken from it."""

    epoch: int = 0
    taken: int = 0


def epoch_order(lessons: Sequence[Lesson], seed: int, epoch: int) -> list[int]:
    """The lessons of an epoch by their places in the list.

    Lessons of share s come once in 1/s epochs, so that all are seen equally often.
    """
    rng = random.Random(f"{seed}/{epoch}")
    order = []
    for place, lesson in enumerate(lessons):
        phase = random.Random(f"{seed}/{lesson.row.key}").random()
        before, now = phase + lesson.share * epoch, phase + lesson.share * (epoch + 1)
        if int(now) > int(before):
            order.append(place)
    rng.shuffle(order)
    return order


def exercise(
    tokenizer: Tokenizer, lesson: Lesson, n_negatives: int, rng: random.Random
) -> Exercise | None:
    """Draw a window with the answer and windows without; None if the answer is too long.

    Where the passage doesn't answer, any of its windows takes the first place.
    """
    row = lesson.row
    windows = windows_of(tokenizer, row.question, row.passage, TRAINED_WINDOW)
    found = [(window, token_spans(window, row.spans, SPAN_MAX)) for window in windows]
    answering = [(window, spans) for window, spans in found if spans or not row.spans]
    if not answering:
        return None
    window, spans = rng.choice(answering)
    drawn = rng.sample(lesson.negatives, min(n_negatives, len(lesson.negatives)))
    others = [
        rng.choice(windows_of(tokenizer, row.question, passage, TRAINED_WINDOW))
        for passage in drawn
    ]
    return Exercise([window, *others], [spans, *([] for _ in others)])


def steps(
    tokenizer: Tokenizer,
    lessons: Sequence[Lesson],
    start: Place,
    *,
    n_tokens: int,
    n_negatives: int,
    seed: int,
) -> Iterator[tuple[list[Exercise], Place]]:
    """Yield endlessly the exercises of a step, and the place behind them."""
    epoch, taken = start.epoch, start.taken
    step: list[Exercise] = []
    total = 0
    while True:
        for place in epoch_order(lessons, seed, epoch)[taken:]:
            taken += 1
            lesson = lessons[place]
            rng = random.Random(f"{seed}/{epoch}/{lesson.row.key}")
            drawn = exercise(tokenizer, lesson, n_negatives, rng)
            if drawn is None:
                continue
            step.append(drawn)
            total += drawn.n_tokens
            if total >= n_tokens:
                yield step, Place(epoch, taken)
                step, total = [], 0
        epoch, taken = epoch + 1, 0


def pack(windows: Sequence[Window]) -> PackedTokens:
    """Lay windows one behind the other."""
    lengths = [len(window.ids) for window in windows]
    return PackedTokens(
        torch.tensor([i for window in windows for i in window.ids]),
        torch.tensor([t for window in windows for t in window.types]),
        torch.cat([torch.arange(length) for length in lengths]),
        lengths,
    )
