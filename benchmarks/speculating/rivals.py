"""Two policies of others, as cycle passes over the same offers, engines and idle rule.

A guess of theirs runs in the background as Heddle's do, ends when its passages change, and decodes.
What differs is when they guess: neither asks how likely its passages are to stay, nor whether the
guess pays. The certain first passages of a prompt are computed ahead under each policy, and in off.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
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

CACHES_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class Unguarded:
    """Guess at every look at a search: what the guard leaves out is seen beside it."""

    name: str = "unguarded"

    def apply(self, view: CycleView) -> tuple[Edit, ...]:
        """Guess all that is offered."""
        return _edits(view, lambda prompt: True)


@dataclass(slots=True)
class RalmSpecLike:
    """Answer from a request's local cache, verify at every stride, and begin again if wrong.

    The cache holds what the request's earlier searches have found, as in the paper. So the first
    search of a request has none.

    Mutates: the caches of the newest `CACHES_MAX` requests.
    Source: Zhang et al. 2024, Accelerating Retrieval-Augmented Language Model Serving with
        Speculation (RaLMSpec), §3.
    Deviates: a stride is counted in looks at the search, not in tokens. It guesses only where the
        search, too, has found nothing else so far, which spares it guesses that lose.
    """

    stride: int
    name: str = "ralmspec_like"
    _found: OrderedDict[int, dict[str, frozenset[int]]] = field(default_factory=OrderedDict)

    def apply(self, view: CycleView) -> tuple[Edit, ...]:
        """Guess what the cache can answer, at the first look and every `stride`-th after it."""
        return _edits(view, self._can_answer)

    def _can_answer(self, prompt: Provisional) -> bool:
        if prompt.request_id not in self._found and len(self._found) == CACHES_MAX:
            self._found.popitem(last=False)
        found = self._found.setdefault(prompt.request_id, {})
        found[prompt.prefill] = frozenset(prompt.chunk_ids)
        cached = frozenset[int]().union(*(f for name, f in found.items() if name != prompt.prefill))
        is_due = (prompt.looks - 1) % self.stride == 0
        return is_due and cached.issuperset(prompt.chunk_ids)


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
            view,
            lambda prompt: (
                prompt.looks_stable >= self.stays
                and _queue(view.engines[prompt.engine]) < self.queue_max
            ),
        )


def _queue(engine: EngineView) -> float:
    """Return how many prompts are in an engine's queue; each comes with its decode."""
    return engine.pending + engine.in_flight / 2


def _edits(view: CycleView, wants: Callable[[Provisional], bool]) -> tuple[Edit, ...]:
    """Return a guess and a decode for each prompt that is certain, or that a policy wants."""
    prompts = [p for p in view.provisional if wants(p) or p.probability == 1.0]
    return (*(Speculate(p, 0.0) for p in prompts), *(SpeculateDecode(p, 0.0) for p in prompts))


MakePass = Callable[[], CyclePass]  # each server has its own
RIVALS: Final[Mapping[str, Mapping[str, MakePass]]] = {
    "ralmspec": {f"stride {stride}": partial(RalmSpecLike, stride) for stride in (1, 2, 4, 8)},
    "ragcache": {
        f"stays {stays}, queue {queue}": partial(RagCacheLike, stays, queue)
        for stays in (0, 2)
        for queue in (1, 4)
    },
}
"""The four settings of each rival, by name."""
