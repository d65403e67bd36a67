"""How much memory KV pages get, and how much is left for the index, from measured curves.

Source: HedraRAG §4.4, eq. 2.
Deviates: both throughputs are divided by the stages of a request, so that the smaller of them is
    that of requests. Where several sizes give the same, the smallest is taken: the rest of the
    memory is worth more to the index.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from heddle.core.errors import ConfigError

EQUAL_SHARE: Final = 0.02  # measured throughputs as close as this count as the same


class RatePoint(NamedTuple):
    """What was answered while stages came at a rate, both a second."""

    rate_per_s: float
    answered_per_s: float


class StageMix(NamedTuple):
    """How many generations and searches a request takes on average."""

    generations: float
    searches: float


class Bound(StrEnum):
    """What bounds a server at a split."""

    LOAD = "the load"
    GENERATION = "generation"
    RETRIEVAL = "retrieval"


class MemorySplit(NamedTuple):
    """Bytes of KV pages and of the rest, and the requests a second that this is predicted for.

    `mix` is the stages of these requests.
    """

    kv_bytes: int
    rest_bytes: int
    requests_per_s: float
    bound: Bound
    mix: StageMix


@dataclass(frozen=True, slots=True)
class MeasuredCurves:
    """T_G, by bytes of KV pages, and T_R, as `heddle profile --memory` has measured them.

    Raises: ConfigError: a curve has no points, or they aren't in order.
    """

    generation: Mapping[int, Sequence[RatePoint]]
    retrieval: Sequence[RatePoint]

    def __post_init__(self) -> None:
        if not self.generation:
            raise ConfigError("the memory profile holds no sizes of KV pages: measure it again")
        for points in (*self.generation.values(), self.retrieval):
            rates = [point.rate_per_s for point in points]
            if not rates or sorted(set(rates)) != rates or rates[0] <= 0:
                raise ConfigError(
                    "a curve of the memory profile needs rates above 0, each once, in order: "
                    "measure it again"
                )


def split_memory(
    curves: MeasuredCurves, mix: StageMix, rate_per_s: float, budget_bytes: int
) -> MemorySplit:
    """Return the split of a budget that serves most requests.

    Args:
        curves: what was measured.
        mix: stages of a request.
        rate_per_s: requests a second that are expected.
        budget_bytes: for KV pages and the index together.

    Raises:
        ConfigError: no measured size fits into the budget.
    """
    sizes = sorted(size for size in curves.generation if size <= budget_bytes)
    if not sizes:
        raise ConfigError(
            f"the memory profile begins at {min(curves.generation):,} bytes of KV pages, and there "
            f"is room for {budget_bytes:,}: measure smaller sizes"
        )
    splits = [predict_split(curves, mix, rate_per_s, budget_bytes, size) for size in sizes]
    most = max(split.requests_per_s for split in splits)
    return next(split for split in splits if split.requests_per_s >= (1 - EQUAL_SHARE) * most)


def predict_split(
    curves: MeasuredCurves, mix: StageMix, rate_per_s: float, budget_bytes: int, kv_bytes: int
) -> MemorySplit:
    """Return what a split with `kv_bytes` of KV pages serves; the size is one of the curves'."""
    retrieved = _requests_per_s(curves.retrieval, rate_per_s, mix.searches)
    generated = _requests_per_s(curves.generation[kv_bytes], rate_per_s, mix.generations)
    requests = min(rate_per_s, retrieved, generated)
    bound = _bound(requests, rate_per_s, retrieved)
    return MemorySplit(kv_bytes, budget_bytes - kv_bytes, requests, bound, mix)


def answered_per_s(points: Sequence[RatePoint], rate_per_s: float) -> float:
    """Return a curve's value at a rate: on the line between two points.

    Below the first point all is answered that the first point's share allows; behind the last one
    throughput stays as it is there.
    """
    rates = [point.rate_per_s for point in points]
    place = bisect_left(rates, rate_per_s)
    if place == len(points):
        return points[-1].answered_per_s
    above = points[place]
    below = points[place - 1] if place else RatePoint(0.0, 0.0)
    share = (rate_per_s - below.rate_per_s) / (above.rate_per_s - below.rate_per_s)
    return below.answered_per_s + share * (above.answered_per_s - below.answered_per_s)


def _requests_per_s(points: Sequence[RatePoint], rate_per_s: float, stages: float) -> float:
    if stages <= 0:
        return float("inf")
    return answered_per_s(points, rate_per_s * stages) / stages


def _bound(requests: float, rate_per_s: float, retrieved: float) -> Bound:
    if requests >= (1 - EQUAL_SHARE) * rate_per_s:
        return Bound.LOAD
    return Bound.RETRIEVAL if retrieved <= requests * (1 + EQUAL_SHARE) else Bound.GENERATION
