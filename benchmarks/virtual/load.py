"""Requests for a virtual server: which workflows, at which rate."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks.virtual.clocked_server import VirtualAsk
from benchmarks.virtual.contenders import FIFO, WAYS
from benchmarks.virtual.machine import Machine
from benchmarks.virtual.scripts import Script
from benchmarks.virtual.server import VirtualServer, Way

WARM_UP_SHARE: Final = 0.1  # of a run, after which requests count
SATURATING: Final = 160


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a run: how long each request took [s], by its workflow's name."""

    names: tuple[str, ...]
    seconds: tuple[float, ...]


@dataclass(slots=True)
class Corpus:
    """A virtual machine, and what requests on it look like.

    Args:
        machine: what its engines cost.
        scripts: the scripts of each workflow, of which a request draws one.
        nprobes: how many lists a request's searches scan, drawn evenly; None = the default.
        passages: lengths of its passages [tokens].
        in_flight: requests at once that saturate it.

    Mutates: remembers workflows and capacities.
    """

    machine: Machine
    scripts: Mapping[str, Sequence[Script]]
    nprobes: Sequence[int | None]
    passages: Sequence[int]
    in_flight: int = 16
    _scanning: dict[tuple[str, int, int | None], Script] = field(default_factory=dict)
    _capacities: dict[tuple[str, ...], float] = field(default_factory=dict)

    def server(self, way: Way) -> VirtualServer:
        """Return a server that has just started."""
        return VirtualServer(self.machine, way, self.passages)

    def ask(self, name: str, draw: int, nprobe: int | None, number: int, at_s: float) -> VirtualAsk:
        """Return a request: `draw` picks its script, `number` its question."""
        pick = draw % len(self.scripts[name])
        key = name, pick, nprobe
        if key not in self._scanning:  # equal requests share a workflow, and so their plans
            self._scanning[key] = self.scripts[name][pick].scanning(nprobe)
        script = self._scanning[key]
        return VirtualAsk(script.workflow, script.inputs(number), at_s)

    def asks(
        self, mix: Sequence[str], count: int, rate_per_s: float, seed: int
    ) -> tuple[list[str], list[VirtualAsk]]:
        """Return Poisson arrivals of a mix in equal shares, with the name of each."""
        draws = random.Random(f"{mix} {seed}")
        names = [mix[n % len(mix)] for n in range(count)]
        draws.shuffle(names)
        at_s, asks = 0.0, []
        for number, name in enumerate(names):
            at_s += draws.expovariate(rate_per_s) if rate_per_s else 0.0
            nprobe = self.nprobes[draws.randrange(len(self.nprobes))]
            asks.append(self.ask(name, draws.randrange(1 << 16), nprobe, number, at_s))
        return names, asks

    def capacity_per_s(self, mix: Sequence[str]) -> float:
        """Return the throughput of `asyncio_fifo` with `in_flight` requests at once."""
        key = tuple(mix)
        if key not in self._capacities:
            _, asks = self.asks(mix, SATURATING, 0.0, -1)
            ends_s = self.server(WAYS[FIFO]).serve_in_turn(asks, self.in_flight)
            self._capacities[key] = throughput_per_s(ends_s)
        return self._capacities[key]

    def run(self, way: Way, mix: Sequence[str], load: float, count: int, seed: int) -> Taken:
        """Serve a mix at a share of the capacity, and return what counts."""
        names, asks = self.asks(mix, count, load * self.capacity_per_s(mix), seed)
        taken_s = self.server(way).serve(asks)
        first = int(WARM_UP_SHARE * count)
        return Taken(tuple(names[first:]), tuple(taken_s[first:]))


def throughput_per_s(ends_s: Sequence[float]) -> float:
    """Return how many requests ended a second, from a fifth of them to four."""
    first, last = len(ends_s) // 5, 4 * len(ends_s) // 5
    return (last - first) / (ends_s[last] - ends_s[first])
