"""Exact match: the answer is an accepted one, word for word."""

from collections.abc import Sequence

from heddle.evals.metrics.normalized_text import answer_tokens, normalized_text

_JOINING = "and"


def exact_match(answer: str, accepted: Sequence[str]) -> float:
    """Return 1.0 if the answer equals one of those accepted after SQuAD normalisation, else 0.0.

    Source: SQuAD (Rajpurkar et al. 2016); FusionRAG §5.1 (EM).
    """
    given = normalized_text(answer)
    return float(any(given == normalized_text(one) for one in accepted))


def exact_match_of_all(answer: str, wanted: Sequence[str]) -> float:
    """Return 1.0 if the answer holds the words of all wanted answers and no others, else 0.0.

    Order doesn't count, and neither does the "and" that joins a list.
    Deviates: TAT-QA's own script takes a list of spans; here a model writes one text, so the
        two are compared as bags of normalised words.
    """
    words = [w for one in wanted for w in answer_tokens(one) if w != _JOINING]
    given = [w for w in answer_tokens(answer) if w != _JOINING]
    return float(sorted(given) == sorted(words))
