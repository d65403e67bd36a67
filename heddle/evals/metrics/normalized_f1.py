"""Normalised F1: how much of what full reuse loses a method wins back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from heddle.core.errors import InputError
from heddle.evals.metrics.bootstrap import Estimate, interval, resampled_means

LOSS_MIN: Final = 0.02  # below two points of F1, the ratio is mostly noise
_ZERO: Final = 1e-9  # equal means can differ by rounding


@dataclass(frozen=True, slots=True)
class NormalizedF1:
    """Normalised F1 beside the raw F1 values it is made of.

    Attributes:
        share: 0 = as bad as full reuse, 1 = as good as full attention, beyond both possible;
            None = undefined: full reuse loses nothing here.
        loss: full attention's F1 minus full reuse's, paired.
        is_stable: whether the loss is at least LOSS_MIN and its interval stays above 0. Where it
            is not, `share` divides by noise: report the raw values.
    """

    share: Estimate | None
    method: Estimate
    full_attention: Estimate
    full_reuse: Estimate
    loss: Estimate
    is_stable: bool


def normalized_f1(
    method: Sequence[float], full_attention: Sequence[float], full_reuse: Sequence[float], seed: int
) -> NormalizedF1:
    """Return (F1 - F1_reuse) / (F1_full - F1_reuse) over the same questions, in that order.

    The interval resamples questions jointly; resamples in which full reuse loses nothing have no
    ratio and are left out, which is one more reason to look at `is_stable`.

    Raises:
        InputError: there are no questions, or not the same number for each.
    Source: FusionRAG §5.1, eq. 11, as a share instead of a percentage.
    """
    sizes = {len(method), len(full_attention), len(full_reuse)}
    if len(sizes) != 1 or sizes == {0}:
        raise InputError(
            "normalised F1 needs F1 values of the same questions under all three methods, got "
            f"{len(method)}, {len(full_attention)} and {len(full_reuse)}"
        )
    columns = np.array([method, full_attention, full_reuse], dtype=np.float64).T
    count = len(columns)
    means = columns.mean(axis=0)
    draws = resampled_means(columns, seed)
    losses = draws[:, 1] - draws[:, 2]
    loss = interval(float(means[1] - means[2]), losses, count)
    share = None
    has_ratio = losses > 0
    if loss.mean > _ZERO and has_ratio.any():
        ratios = (draws[has_ratio, 0] - draws[has_ratio, 2]) / losses[has_ratio]
        share = interval(float((means[0] - means[2]) / loss.mean), ratios, count)
    own, full, reuse = (interval(float(means[i]), draws[:, i], count) for i in range(3))
    is_stable = loss.mean >= LOSS_MIN and loss.low > 0
    return NormalizedF1(share, own, full, reuse, loss, is_stable)
