"""The best span of each window, from the three numbers that a model gives each token."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.engines.reading.windows import Window

START, END, ANSWERABLE = range(3)
# Below the score of every text, and finite: scores travel as JSON.
LOWEST_SCORE: Final = float(np.finfo(np.float32).min)


class Finding(NamedTuple):
    """A window's score, and its best span: passage tokens `first` to `last`, both included.

    A model that only scores finds no span: `first` is -1.
    """

    score: float
    first: int = -1
    last: int = -1


def best_spans(
    logits: NDArray[np.float32], windows: Sequence[Window], span_max: int
) -> list[Finding]:
    """Return the best span of each window, the first of equal ones.

    A span's score is the start of its first token, the end of its last one and the first token's
    answerability, added. "No answer" scores 0.

    Args:
        logits: start, end and answerability of each token; windows one behind the other.
        windows: each with at least one token of its passage.
        span_max: the longest span [tokens].
    Shapes: logits [n, 3].
    """
    counts = np.array([len(window.offsets) for window in windows])
    begins = np.cumsum([0, *(len(window.ids) for window in windows[:-1])])
    places = np.concatenate(
        [
            np.arange(begin + window.first, begin + window.first + count)
            for begin, window, count in zip(begins, windows, counts, strict=True)
        ]
    )
    # Behind each passage's ends lie minus infinities, so that no span leaves its window.
    gap = span_max - 1
    spread = np.arange(len(places)) + np.repeat(gap * np.arange(len(windows)), counts)
    ends = np.full(len(places) + gap * len(windows), -np.inf, np.float32)
    ends[spread] = logits[places, END]
    reach = np.lib.stride_tricks.sliding_window_view(ends, span_max)[spread]
    answerable = np.repeat(logits[begins, ANSWERABLE], counts)
    scores = logits[places, START, None] + reach + answerable[:, None]
    longer = scores.argmax(axis=1)
    best = scores[np.arange(len(scores)), longer]
    found, at = [], 0
    for count in counts:
        first = int(best[at : at + count].argmax())
        last = first + int(longer[at + first])
        found.append(Finding(float(best[at + first]), first, last))
        at += count
    return found
