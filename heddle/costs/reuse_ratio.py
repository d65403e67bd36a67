"""How much of a reused prompt a request has the time to compute anew."""

from typing import Final

RATIOS: Final = (1.0, 0.5, 0.3, 0.2, 0.15, 0.1, 0.05, 0.0)


def largest_ratio(reused_tokens: int, token_s: float, left_s: float) -> float:
    """Return the largest ratio of `RATIOS` whose tokens are computed in time; 0 where none is.

    Args:
        reused_tokens: the tokens that the ratio is a share of.
        token_s: predicted time of computing one of them [s].
        left_s: time left for them, once all else that the request needs is counted [s].
    """
    for ratio in RATIOS:
        if ratio * reused_tokens * token_s <= left_s:
            return ratio
    return 0.0
