"""The load: which workflow answers which question, and when it comes."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from heddle.workflow.presets import PRESETS

WORKFLOWS: Final = tuple(name for name in PRESETS if name != "quote")
NPROBES: Final = (64, 91, 128, 181, 256, 362, 512)
"""Equal steps of the logarithm: drawn evenly, they are drawn log-uniformly from 64 to 512."""
Nprobes = Sequence[int | None]
DEFAULT_NPROBES: Final[Nprobes] = (None,)


@dataclass(frozen=True, slots=True)
class Ask:
    """A question, the workflow that answers it, how many lists its searches scan, its arrival [s].

    `nprobe` None = as many as the index scans by default.
    """

    workflow: str
    question: str
    nprobe: int | None
    at_s: float


def blocks_of(
    questions: Sequence[str],
    count: int,
    blocks: int,
    rate_per_s: float,
    seed: int,
    nprobes: Nprobes = DEFAULT_NPROBES,
    mix: Sequence[str] = WORKFLOWS,
) -> list[list[Ask]]:
    """Return Poisson arrivals in blocks, each with equal shares of the mix's workflows.

    Args:
        questions: what is asked, each once at most; a question that stands in it twice, twice.
        count: asks of a block, at least.
        blocks: how many.
        rate_per_s: arrivals a second; 0 = all of a block come at once.
        seed: of every draw.
        nprobes: how many lists searches scan, drawn evenly from these.
        mix: workflows in equal shares; one that stands in it twice has two.
    """
    draws = random.Random(seed)
    rounds = -(-count // len(mix))
    left = iter(draws.sample(list(questions), rounds * len(mix) * blocks))
    found = []
    for _ in range(blocks):
        names = [name for name in mix for _ in range(rounds)]
        draws.shuffle(names)
        at_s, asks = 0.0, []
        for name in names:
            at_s += draws.expovariate(rate_per_s) if rate_per_s else 0.0
            asks.append(Ask(name, next(left), draws.choice(nprobes), at_s))
        found.append(asks)
    return found
