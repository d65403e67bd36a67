"""The orders in which a pool can serve its two queues, by name."""

from enum import Enum


class PoolPolicy(Enum):
    """How free slots are shared.

    ADAPTIVE: a reserved share for prefill, by slack, steered by feedback; late prefill searches
    park running decode searches. (Trinity §3.3) The others are its baselines: one
    stage always before the other, or both in the order of their arrival.
    """

    ADAPTIVE = "adaptive"
    PREFILL_FIRST = "prefill_first"
    DECODE_FIRST = "decode_first"
    FIFO = "fifo"
