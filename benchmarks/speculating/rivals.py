"""Two policies of others, as cycle passes over the same offers, engines and idle rule.

A guess of theirs runs in the background as Heddle's do, ends when its passages change, and is told
to decode. What differs is when they guess: neither asks how likely its passages are to stay, nor
whether the guess pays.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from heddle.passes.cycle_view import (
    CycleView,
    Edit,
    EngineView,
    Provisional,
    Speculate,
    SpeculateDecode,
)
from heddle.passes.runner import CyclePass
from heddle.passes.split_substages import SplitSubstages


@dataclass(frozen=True, slots=True)
class RalmSpecLike:
    """Answer from what a quick retrieval has, verify at every stride, and begin again if wrong.

    Source: Zhang et al. 2024, Accelerating Retrieval-Augmented Language Model Serving with
        Speculation (RaLMSpec).
    Deviates: its quick retrieval is a local cache of passages seen before. Questions of other
        requests leave nothing there that helps, so that here the first lists of the index answer.
        That is generous: they hold passages that no cache has. A stride is counted in looks.
    """

    stride: int
    name: str = "ralmspec_like"

    def apply(self, view: CycleView) -> tuple[Edit, ...]:
        """Guess at the first look at a search, and at every `stride`-th after it."""
        return _edits(p for p in view.provisional if (p.looks - 1) % self.stride == 0)


@dataclass(frozen=True, slots=True)
class RagCacheLike:
    """Begin once the provisional passages have stayed a while, and the engine's queue is short.

    Source: Jin et al. 2024, RAGCache §5.3 (dynamic speculative pipelining).
    Deviates: the paper begins at every change, which is `stays` 0 here. Hits that change often
        make that dear, so that settings which wait are tried as well.
    """

    stays: int
    queue_max: int
    name: str = "ragcache_like"

    def apply(self, view: CycleView) -> tuple[Edit, ...]:
        """Guess what has stayed, while fewer than `queue_max` prompts are in the engine's queue."""
        return _edits(
            p
            for p in view.provisional
            if p.looks_stable >= self.stays and _queue(view.engines[p.engine]) < self.queue_max
        )


def _queue(engine: EngineView) -> float:
    """Return how many prompts are in an engine's queue; each comes with its decode."""
    return engine.pending + engine.in_flight / 2


def _edits(chosen: Iterable[Provisional]) -> tuple[Edit, ...]:
    prompts = list(chosen)
    return (*(Speculate(p, 0.0) for p in prompts), *(SpeculateDecode(p, 0.0) for p in prompts))


RIVALS: Final[Mapping[str, Mapping[str, Sequence[CyclePass]]]] = {
    "ralmspec": {
        f"stride {stride}": (SplitSubstages(), RalmSpecLike(stride)) for stride in (1, 2, 4, 8)
    },
    "ragcache": {
        f"stays {stays}, queue {queue}": (SplitSubstages(), RagCacheLike(stays, queue))
        for stays in (0, 2)
        for queue in (1, 4)
    },
}
"""The four settings of each rival, by name."""
