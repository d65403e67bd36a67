"""The pool's slow control loop: what was measured turns the share and the flush timeout. Pure."""

from dataclasses import dataclass, replace

from heddle.engines.vector.pool.limits import FLUSH_FLOOR, SHARE_MAX, SHARE_MIN, PoolKnobs

EVERY_S = 0.3
KV_LINK_TARGET = 0.9  # share of what could be sent that should be
SHARE_STEP = 0.1
FLUSH_FACTOR = 0.7


@dataclass(frozen=True, slots=True)
class PoolSignals:
    """What happened since the loop last ran.

    Args:
        kv_link_use: of the link that carries KV from prefill to decode, in [0, 1], as a share of
            what prefill could send if it never waited (`KvLink`).
        prefill_wait_p95_s: from a prefill search's arrival to its start [s].
        decode_stall: share of decode time spent waiting for searches, in [0, 1].
    """

    kv_link_use: float
    prefill_wait_p95_s: float
    decode_stall: float


@dataclass(frozen=True, slots=True)
class PoolTargets:
    """What the loop steers towards, in the units of `PoolSignals`."""

    prefill_wait_s: float
    kv_link_use: float = KV_LINK_TARGET
    decode_stall: float = 0.05


def adjusted(knobs: PoolKnobs, signals: PoolSignals, targets: PoolTargets) -> PoolKnobs:
    """Return the knobs for the next period.

    Prefill gets more while its searches wait too long, or while the KV link idles and decode has
    no stall to show for it; decode gets more while it stalls.

    Source: Trinity §3.3, the control loop.
    """
    waits = signals.prefill_wait_p95_s > targets.prefill_wait_s
    stalls = signals.decode_stall > targets.decode_stall
    starves_link = signals.kv_link_use < targets.kv_link_use and signals.prefill_wait_p95_s > 0
    if waits or (starves_link and not stalls):
        shorter_s = knobs.prefill_wait_s_max * FLUSH_FACTOR
        return replace(
            knobs,
            share=min(SHARE_MAX, knobs.share + SHARE_STEP),
            prefill_wait_s_max=max(shorter_s, FLUSH_FLOOR * knobs.wait_s_max),
        )
    if stalls:
        relaxed_s = knobs.prefill_wait_s_max / FLUSH_FACTOR
        return replace(
            knobs,
            share=max(SHARE_MIN, knobs.share - SHARE_STEP),
            prefill_wait_s_max=min(knobs.wait_s_max, relaxed_s),
        )
    return knobs
