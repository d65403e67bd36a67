"""Stress tests and the three rows of Table III, on lanes that take what a test says."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from heddle.app.embedding_depths import FoundDepths
from heddle.app.profiling.lane_depths import StressTest, depth_table


@dataclass
class SlowFor:
    """A lane's probe: 10 ms a query, but its first bursts of ten queries take longer."""

    slow_s: tuple[float, ...]
    bursts: int = 0

    def burst(self, texts: Sequence[str]) -> SimpleNamespace:
        if len(texts) != 10:
            return SimpleNamespace(seconds=0.01 * len(texts))
        self.bursts += 1
        return SimpleNamespace(seconds=dict(enumerate(self.slow_s, 1)).get(self.bursts, 0.1))


@pytest.mark.parametrize(
    ("slow_s", "depth", "bursts"),
    [((0.105,) * 2, 10, 22), ((0.3, 0.105), 10, 22), ((0.105,) * 4, 9, 4), ((0.3, 0.3), 9, 2)],
)
def test_a_size_just_beyond_the_slo_gets_another_turn(
    slow_s: tuple[float, ...], depth: int, bursts: int
) -> None:
    probe = SlowFor(slow_s)
    assert StressTest({"fast": probe}, 0.1, 16, 20).run().depths == {"fast": depth}
    assert probe.bursts == bursts, "two beyond decide a turn"


@dataclass
class Shared:
    """A lane that is a quarter slower while its neighbour is busy, too."""

    query_s: float
    neighbours: "Neighbours"

    def burst(self, texts: Sequence[str]) -> SimpleNamespace:
        slower = self.neighbours.slower(self)
        return SimpleNamespace(seconds=slower * self.query_s * len(texts))


@dataclass
class Neighbours:
    """Lanes that meet: with `together` a burst waits for the other lane's."""

    together: threading.Barrier | None = None
    seen: set[int] = field(default_factory=set)

    def slower(self, lane: Shared) -> float:
        self.seen.add(id(lane))
        if self.together is None:
            return 1.0
        self.together.wait(timeout=30)
        return 1.25


def test_fine_tuning_loads_all_lanes_at_once_and_refines_the_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    neighbours = Neighbours()
    probes = {"fast": Shared(0.01, neighbours), "slow": Shared(0.05, neighbours)}
    run = StressTest.run

    def with_neighbours(test: StressTest) -> object:
        both = len(test.found.depths) == 2
        neighbours.together = threading.Barrier(2) if both else None
        return run(test)

    monkeypatch.setattr(StressTest, "run", with_neighbours)
    table = depth_table(probes, {"fast": 101, "slow": 21}, 1.0, 75, repeats=3)
    assert table.slo_s == 1.0
    assert table.lanes == {"fast": FoundDepths(101, 100, 80), "slow": FoundDepths(21, 20, 16)}
