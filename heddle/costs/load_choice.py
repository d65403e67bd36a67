"""How many of a prompt's stored chunks are worth waiting for."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoadChoice:
    """Load the first `loads` chunks and prefill the others.

    `predicted_s` is when the prompt's chunks are all in so, and `all_loaded_s` when they were if
    all were loaded [s from now].
    """

    loads: int
    predicted_s: float
    all_loaded_s: float


def choose_loads(
    ends_s: Sequence[float], prefill_s: Sequence[float], busy_s: float = 0.0
) -> LoadChoice:
    """Return the choice with the earliest predicted end; of equals, the one that loads most.

    A prompt is computed once all of its loads have ended and the engine has time for it: loads
    that end before that cost nothing. Then it prefills what was not loaded.

    Args:
        ends_s: when each chunk would be loaded, ascending [s from now].
        prefill_s: how much longer computing takes where that chunk is not loaded [s].
        busy_s: how long the engine has others to compute [s].
    """
    waits_s = (busy_s, *(max(busy_s, end_s) for end_s in ends_s))
    totals_s = [wait_s + sum(prefill_s[loads:]) for loads, wait_s in enumerate(waits_s)]
    predicted_s = min(totals_s)
    loads = max(loads for loads, total_s in enumerate(totals_s) if total_s == predicted_s)
    return LoadChoice(loads, predicted_s, totals_s[-1])
