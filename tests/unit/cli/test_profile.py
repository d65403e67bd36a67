"""What `heddle profile` says of lanes, and what it refuses."""

import math
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from heddle.app.assembly import server_plan
from heddle.app.assembly.embedding_lanes import EmbeddingLane
from heddle.cli import profile as module
from heddle.cli.main import main
from heddle.cli.profile import LaneProfile, lines, slos_of
from heddle.costs.batch_cost import BatchCost, queue_depth
from heddle.hosts.machine import MachineFacts
from tests.helpers.bare_model import write_bare_model

SLOS_S = (0.5, 1.0, 2.0)


def profile(name: str, alpha_s: float, beta_s: float) -> LaneProfile:
    cost = BatchCost.from_queries(alpha_s, beta_s, 75)
    depths = tuple(queue_depth(cost, slo_s, 75) for slo_s in SLOS_S)
    return LaneProfile(name, "a device", alpha_s, beta_s, 15, 9.0, depths)


NPU = profile("npu", 1 / 56, 1 - 40 / 56)
CPU = profile("cpu", 1 / 12, 1 - 4 / 12)


def test_the_papers_lanes() -> None:
    report = "\n".join(lines([NPU, CPU], SLOS_S, 75, peak=1000, rate=100))
    assert "alpha 17.86 ms/query of 75 tokens, beta 285.71 ms, from 15 bursts in 9.0 s" in report
    assert "lane npu: 40 queries within 1000 ms" in report
    assert "lane cpu: 16 queries within 2000 ms" in report
    assert "lane cpu is closed: one query takes 750 ms" in report
    assert "an SLO of 750 ms would open it" in report
    assert "1000 ms: a peak of 1000 queries needs 25 of the fast lane" in report
    assert "2000 ms: a peak of 1000 queries needs 11 of the fast lane" in report
    assert "with the others beside each, 2 fewer (14.3%), 16.7% more queries at once" in report
    assert "100 queries/s on average need 2.08, with the others 1.79" in report


def test_a_closed_lane_saves_nothing() -> None:
    report = lines([NPU, CPU], SLOS_S, 75, peak=100, rate=48)
    [only] = [line for line in report if line.startswith("500 ms")]
    assert only == (
        "500 ms: a peak of 100 queries needs 9 of the fast lane; 48 queries/s on average need 2.00"
    )


@pytest.mark.parametrize(("arguments", "cores"), [(["--model", "m"], (0,)), ([], (0, 1))])
def test_the_lanes_are_those_of_a_server_beside_its_llm(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    cores: tuple[int, ...],
) -> None:
    model = write_bare_model(tmp_path / "model")
    monkeypatch.setattr(server_plan, "model_directory", lambda name: model)
    machine = MachineFacts((0, 1), math.inf, "CPU", frozenset(), 1 << 34, 1 << 34, ())
    monkeypatch.setattr(module, "read_machine", lambda: machine)
    timed: list[tuple[int, ...]] = []

    def profile_lane(lane: EmbeddingLane, *_: object) -> LaneProfile:
        timed.append(lane.cpus)
        return NPU

    monkeypatch.setattr(module, "profile_lane", profile_lane)
    assert main(["profile", "--slo", "500,1000,2000", *arguments]) == 0
    assert timed == [cores]
    assert "lane npu: 40 queries within 1000 ms" in capsys.readouterr().out


def test_limits_are_milliseconds() -> None:
    assert slos_of("500, 100,500") == (0.1, 0.5)
    for text in ("", "a", "0", "100,-1", "nan", "inf"):
        with pytest.raises(ArgumentTypeError, match="milliseconds"):
            slos_of(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tokens", "5"], "--tokens must be from 6"),
        (["--peak", "0"], "--peak"),
        (["--rate", "0"], "--rate"),
        (["--rate", "nan"], "--rate"),
    ],
)
def test_refusals(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["profile", *arguments]) == 2
    assert message in capsys.readouterr().err
