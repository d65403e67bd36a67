"""One ranking from several, as of a hybrid search: by vectors and by words.

Source: Cormack et al. 2009, reciprocal rank fusion.
"""

from collections.abc import Sequence

FUSION_K = 60  # as in the paper: how little the first places count more than the next
RANKED_MIN, RANKED_PER_HIT = 30, 3  # of each ranking, for as many hits
RANKED_MAX = 1024  # of each ranking, but for hits of more: as many as a graph's search keeps


def ranked(topk: int) -> int:
    """Return how many entries each ranking needs for `topk` fused ones."""
    wanted = max(RANKED_MIN, RANKED_PER_HIT * topk)
    return max(topk, min(wanted, RANKED_MAX))


def fused(rankings: Sequence[Sequence[int]], topk: int) -> list[int]:
    """Return the topk entries over all rankings, best first; of equals, the smaller id first."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for place, entry in enumerate(ranking, start=1):
            scores[entry] = scores.get(entry, 0.0) + 1.0 / (FUSION_K + place)
    return sorted(scores, key=lambda entry: (-scores[entry], entry))[:topk]
