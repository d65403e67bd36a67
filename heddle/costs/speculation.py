"""The gain and cost of computing a prompt before its passages are certain. (HedraRAG §4.3)"""

from typing import Final

SHARED_BUSY_MAX: Final = 0.6
"""The share of time that an LLM engine may work where prompts are still computed ahead for it, on
a machine whose lanes and runtime have to share cores: guesses and reports of partial hits take time
from the other engines there, even while this one is idle."""


def speculation_gain_s(probability: float, rest_s: float, prefill_s: float, step_s: float) -> float:
    """Return how much earlier the answer is expected to begin [s].

    A right guess saves what is computed of the prompt until the search ends. After a wrong one the
    prompt waits for the rest of the step that computes the guess: half a step, on average.

    Args:
        probability: of the passages being the final ones.
        rest_s: how long their search still takes [s].
        prefill_s: how long the prompt takes to compute [s].
        step_s: the longest step that the engine makes in the background [s].
    """
    saved_s = min(rest_s, prefill_s)
    delay_s = min(step_s, prefill_s) / 2
    return probability * saved_s - (1 - probability) * delay_s


def speculation_cost_s(probability: float, prefill_s: float, call_s: float, delay: float) -> float:
    """Return how much later all answers together are expected to end by a guess [s].

    The guess is a step of its own, which its own answer waits for as well, and a wrong one is
    computed for nothing. What is computed beside what has to be holds up everybody who waits.

    Args:
        probability: of the passages being the final ones.
        prefill_s: how long the prompt takes to compute [s].
        call_s: what a step takes beside its tokens [s].
        delay: of all the engine's calls together, for a second of work that is added.
    """
    return call_s + (call_s + (1 - probability) * prefill_s) * delay


def may_gain(probability: float, rest_s: float, call_s: float, delay: float) -> bool:
    """Whether a guess of any length could gain more than it costs. Arguments as above."""
    cost_s = speculation_cost_s(probability, rest_s, call_s, delay)
    return speculation_gain_s(probability, rest_s, rest_s, 0.0) > cost_s
