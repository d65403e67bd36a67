"""How many rows of a long stage are computed at a time. (Teola §4.2, pass 2)"""

import math
from typing import Final

OVERHEAD_SHARE: Final = 0.1  # of a micro-batch's time, at most


def micro_batch_rows(call_s: float, row_s: float) -> int:
    """Return the smallest batch that an engine computes about as fast as any larger one.

    Args:
        call_s: what a batch costs beside its rows [s].
        row_s: what a row has taken in the engine's steps lately, its share of those included [s].
    """
    if row_s <= 0:
        return 1
    return max(1, math.ceil(call_s / row_s / OVERHEAD_SHARE))
