"""How long a retrieval sub-stage may run. (HedraRAG §4.2)"""

import math

from heddle.core.errors import ConfigError


def substage_budget_s(retrieval_s: float, overhead_s: float) -> float:
    """Return the sub-stage time budget with the largest expected latency gain.

    Args:
        retrieval_s: mean length of a whole retrieval stage, measured online [s].
        overhead_s: scheduling cost of one more sub-stage, the paper's beta [s].

    Returns:
        The budget, in (0, retrieval_s] [s].

    Raises:
        ConfigError: either input is not positive.

    Source: HedraRAG §4.2, eq. 1 (the paper's mb).
    Deviates: eq. 1 as printed adds the overhead term and so has no interior optimum; taken as
        the cost it is, the gain (t − mb)/2 − (t/mb)·β is largest at mb = √(2·t·β).
    """
    if retrieval_s <= 0 or overhead_s <= 0:
        raise ConfigError(f"need positive times, got {retrieval_s=} and {overhead_s=}")
    return min(retrieval_s, math.sqrt(2 * retrieval_s * overhead_s))


def substage_gain_s(retrieval_s: float, overhead_s: float, budget_s: float) -> float:
    """Return the expected latency gain of sub-stages of this length [s]. (HedraRAG eq. 1)"""
    return (retrieval_s - budget_s) / 2 - retrieval_s / budget_s * overhead_s
