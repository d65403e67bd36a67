"""Two unequal lanes, and what embed-concurrency makes of their depths."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.embed_concurrency import PAPER_TOKENS, QUESTION_TOKENS, _headline, run
from benchmarks.support import lane_depths, lane_pair
from benchmarks.support.lane_depths import (
    QUERIES_MAX,
    Climb,
    StressTest,
    take_turns,
    within_bound,
)
from benchmarks.support.lane_pair import LanePair
from heddle.core.errors import InputError
from heddle.hosts.machine import read_machine

MACHINE = replace(read_machine(), cpus=(2, 3, 5), cpu_flags=frozenset(), gpus=())


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (frozenset({"avx512_bf16"}), ("core2-bfloat16", "core3-float32")),
        (frozenset({"amx_bf16"}), ("core2-bfloat16", "core3-float32")),
        (frozenset(), ("core2-float32", "core3-float32-sse2")),
    ],
)
def test_the_slow_lane_is_a_proxy_only_where_bfloat16_is_emulated(
    monkeypatch: pytest.MonkeyPatch, flags: frozenset[str], names: tuple[str, str]
) -> None:
    monkeypatch.setattr(lane_pair, "read_machine", lambda: replace(MACHINE, cpu_flags=flags))
    assert LanePair.here().names == names


def test_two_lanes_need_two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_pair, "read_machine", lambda: replace(MACHINE, cpus=(7,)))
    with pytest.raises(InputError, match="two lanes need two cores, here is 1"):
        LanePair.here()


def test_a_model_that_is_not_measured_is_refused() -> None:
    with pytest.raises(InputError, match="choose one of minilm, bert-large"):
        run(quick=True, seed=0, model="bge")


def test_the_headline_is_the_worst_gain_of_questions_from_100_ms_on() -> None:
    def row(tokens: int, slo_s: float, gain: float, fit_slow: int) -> dict[str, object]:
        depths = {"fast": 30, "fit_fast": 33, "slow": 10, "fit_slow": fit_slow}
        fits = {"fits_fast": [30, 33, 34], "fits_slow": [9, fit_slow, fit_slow]}
        return {
            "model": "minilm",
            "tokens": tokens,
            "slo_s": slo_s,
            "gain": gain,
            "fit_probes": 15,
            **depths,
            **fits,
        }

    questions = [row(QUESTION_TOKENS, slo_s, gain, 11) for slo_s, gain in ((0.05, 0), (0.1, 0.3))]
    paper = [row(PAPER_TOKENS, 0.1, 0.1, 30), row(PAPER_TOKENS, 0.5, 0.2, 30)]
    found = _headline([*questions, row(QUESTION_TOKENS, 0.5, 0.4, 12), *paper])
    assert found == {
        "gain_100ms": 0.3,
        "gain_100ms_paper_length": 0.1,
        "fit_error_queries": 3,
        "fit_within": pytest.approx(5 / 6),
        "single_fit_within": pytest.approx((3 * 2 + 2 * 3 + 1) / 18),
        "probes": 15,
    }
    assert "gain_100ms_paper_length" not in _headline(questions)


@pytest.mark.parametrize(
    ("fitted", "found", "is_within"),
    [(1, 0, True), (2, 0, False), (9, 10, True), (8, 10, False), (33, 30, True), (34, 30, False)],
)
def test_a_fit_may_be_off_by_a_query_or_a_tenth(fitted: int, found: int, is_within: bool) -> None:
    assert within_bound(fitted, found) is is_within


@given(deepest=st.integers(0, 2 * QUERIES_MAX))
def test_a_stress_test_ends_a_query_or_5_percent_below_the_largest_burst_that_keeps_the_slo(
    deepest: int,
) -> None:
    climb, bursts = Climb(), 0
    while not climb.is_done:
        assert 1 <= climb.size <= QUERIES_MAX
        climb.take(climb.size / deepest if deepest else 2.0)
        bursts += 1
    deepest = min(deepest, QUERIES_MAX)
    assert climb.depth <= deepest < climb.depth + max(1, climb.depth // 20)
    assert climb.size == max(1, climb.depth)
    assert bursts < 20


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
    monkeypatch: pytest.MonkeyPatch, slow_s: tuple[float, ...], depth: int, bursts: int
) -> None:
    live = SimpleNamespace(ports=[SimpleNamespace(name="fast")], clock=None)
    probe = SlowFor(slow_s)
    monkeypatch.setattr(lane_depths, "LaneProbe", lambda port, clock: probe)
    test = StressTest(live, ("fast",), 0.1, 16, 20)
    take_turns([test])
    assert test.found.depths == {"fast": depth}
    assert probe.bursts == bursts, "two beyond decide a turn"
