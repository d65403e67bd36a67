"""Two unequal lanes, and what embed-concurrency makes of their depths."""

import os
from dataclasses import replace

import pytest

from benchmarks.embed_concurrency import PAPER_TOKENS, QUESTION_TOKENS, _headline, run
from benchmarks.support import lane_pair
from benchmarks.support.cpu_use import cpu_used
from benchmarks.support.lane_depths import within_bound
from benchmarks.support.lane_pair import LanePair
from heddle.core.errors import InputError
from heddle.hosts.machine import MachineFacts, read_machine

MACHINE = replace(read_machine(), cpus=(2, 3, 5), cpu_flags=frozenset(), gpus=())
FAST_BFLOAT16 = replace(MACHINE, cpu_flags=frozenset({"amx_bf16"}))


def pair_on(monkeypatch: pytest.MonkeyPatch, facts: MachineFacts, **wanted: str) -> LanePair:
    monkeypatch.setattr(lane_pair, "read_machine", lambda: facts)
    return LanePair.here(**wanted)


@pytest.mark.parametrize("facts", [MACHINE, FAST_BFLOAT16])
def test_on_every_cpu_the_slow_lane_is_held_to_sse2(
    monkeypatch: pytest.MonkeyPatch, facts: MachineFacts
) -> None:
    pair = pair_on(monkeypatch, facts)
    assert pair.names == ("core2-float32", "core3-float32-sse2")
    assert pair.is_proxy
    assert dict(pair.slow.environment)["MKL_CBWR"] == "COMPATIBLE"


def test_bfloat16_is_compared_where_it_is_in_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = pair_on(monkeypatch, FAST_BFLOAT16, dtype="bfloat16")
    assert (pair.names, pair.is_proxy) == (("core2-bfloat16", "core3-float32"), False)
    with pytest.raises(InputError, match="emulates bfloat16"):
        pair_on(monkeypatch, MACHINE, dtype="bfloat16")


def test_beside_a_gpu_the_slow_lane_has_the_other_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = pair_on(monkeypatch, replace(MACHINE, gpus=("a GPU",)), device="cuda")
    assert (pair.fast.device, pair.slow.cpus) == ("cuda:0", (5,))
    with pytest.raises(InputError, match="there is no GPU here"):
        pair_on(monkeypatch, MACHINE, device="cuda")


def test_a_cpu_of_another_kind_has_no_sse2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(InputError, match="SSE2, which aarch64 doesn't have"):
        pair_on(monkeypatch, MACHINE)


def test_two_lanes_need_two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_pair, "read_machine", lambda: replace(MACHINE, cpus=(7,)))
    with pytest.raises(InputError, match="two lanes need two cores, here is 1"):
        LanePair.here()


def test_a_model_that_is_not_measured_is_refused() -> None:
    with pytest.raises(InputError, match="choose one of minilm, bge, jina"):
        run(quick=True, seed=0, model="bert-large")
    with pytest.raises(InputError, match="--device tpu: choose one of cpu, cuda"):
        run(quick=True, seed=0, device="tpu")


def test_the_headline_is_the_worst_gain_of_questions_from_100_ms_on() -> None:
    def row(tokens: int, slo_s: float, gain: float, fit_slow: int) -> dict[str, object]:
        depths = {"fast": 30, "fit_fast": 33, "slow": 10, "fit_slow": fit_slow}
        fits = {"fits_fast": [30, 33, 34], "fits_slow": [9, fit_slow, fit_slow]}
        return {
            "model": "minilm",
            "tokens": tokens,
            "slo_s": slo_s,
            "gain": gain,
            "alone": 30,
            "slow_alone": 12,
            "gain_bound": 0.5,
            "cpu_before": 0.5,
            "cpu_after": slo_s,
            "fit_probes": 15,
            **depths,
            **fits,
        }

    questions = [row(QUESTION_TOKENS, slo_s, gain, 11) for slo_s, gain in ((0.05, 0), (0.1, 0.3))]
    paper = [row(PAPER_TOKENS, 0.1, 0.1, 30), row(PAPER_TOKENS, 0.5, 0.2, 30)]
    found = _headline([*questions, row(QUESTION_TOKENS, 0.5, 0.4, 12), *paper])
    assert found == {
        "gain_100ms": 0.3,
        "gain_over_bound": 0.8,
        "reached_over_bound": pytest.approx(40 / 42),
        "cpu_before": 0.5,
        "cpu_after": 0.5,
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


def test_the_use_of_the_cpu_is_that_of_the_processes_named() -> None:
    def work() -> None:
        began = os.times()
        while os.times().user + os.times().system - began.user - began.system < 0.05:
            pass

    assert 0 < cpu_used([os.getpid()], 1, work) < 2
    assert cpu_used([], 1, work) == 0
