"""What it is worth to compute a prompt before its passages are certain. (HedraRAG §4.3)"""


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
