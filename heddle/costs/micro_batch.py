"""How many rows of a long stage are computed at a time. (Teola §4.2, pass 2)"""

import math
from typing import Final

OVERHEAD_SHARE: Final = 0.1  # of a micro-batch's time, at most
READER_SHARE: Final = 0.3  # of a row's time that its reader takes at least, or parts only cost


def micro_batch_rows(call_s: float, row_s: float, reader_row_s: float) -> int | None:
    """Return the smallest batch that an engine computes about as fast as any larger one.

    None = the stage stays whole: what reads it is over so soon that there is little to overlap.
    Parts cost, too: shorter texts are padded to longer ones, and each part is a call. On the
    virtual clock stages of 24 rows break even at about this share.

    Args:
        call_s: what a batch costs beside its rows [s].
        row_s: what a row has taken in the engine's steps lately, its share of those included [s].
        reader_row_s: the same of the engine that reads the rows [s].
    """
    if row_s <= 0 or reader_row_s < READER_SHARE * row_s:
        return None
    return max(1, math.ceil(call_s / row_s / OVERHEAD_SHARE))
