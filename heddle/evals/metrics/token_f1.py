"""Token F1: how many words an answer shares with the best of the accepted ones."""

from collections import Counter
from collections.abc import Sequence

from heddle.evals.metrics.normalized_text import answer_tokens


def token_f1(answer: str, accepted: Sequence[str]) -> float:
    """Return the best F1 over the accepted answers, in [0, 1]; 0.0 if there are none.

    Source: SQuAD (Rajpurkar et al. 2016): precision and recall over the bags of words of the
        normalised texts. Where both are empty it is 1, where one is, 0.
    """
    given = answer_tokens(answer)
    return max((f1_of_bags(given, answer_tokens(one)) for one in accepted), default=0.0)


def f1_of_bags(given: Sequence[str], wanted: Sequence[str]) -> float:
    """Return the harmonic mean of precision and recall of two bags of words."""
    if not given or not wanted:
        return float(given == wanted)
    shared = (Counter(given) & Counter(wanted)).total()
    return f_measure(shared, len(given), len(wanted))


def f_measure(shared: int, given: int, wanted: int) -> float:
    """Return 2PR/(P+R) with precision shared/given and recall shared/wanted."""
    return 2.0 * shared / (given + wanted)
