"""`heddle profile`: its report on lanes, and the arguments that are refused."""

import math
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from heddle.app.assembly import server_plan
from heddle.app.assembly.embedding_lanes import EmbeddingLane
from heddle.app.embedding_depths import DepthTable, FoundDepths
from heddle.cli import profile as module
from heddle.cli.main import main
from heddle.cli.profile import LaneProfile, Use, lines, slos_of
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
    report = "\n".join(lines([NPU, CPU], SLOS_S, Use(75, 1000, 100)))
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
    report = lines([NPU, CPU], SLOS_S, Use(75, 100, 48))
    [only] = [line for line in report if line.startswith("500 ms")]
    assert only == (
        "500 ms: a peak of 100 queries needs 9 of the fast lane; 48 queries/s on average need 2.00"
    )


def test_a_price_and_devices_of_an_instance_make_costs_by_eqs_5_and_6() -> None:
    use = Use(75, 1000, 100, devices=2, price=3.0)
    report = "\n".join(lines([NPU, CPU], SLOS_S, use))
    assert "2000 ms: a peak of 1000 queries needs 22 of the fast lane" in report
    assert "100 queries/s on average need 4.17, with the others 3.57" in report
    assert f"the peak costs {1000 / 96 * 6:.2f}, with the others {1000 / 112 * 6:.2f}" in report
    assert f"the rate costs {100 / 48 * 6:.2f}, with the others {100 / 56 * 6:.2f}" in report


def test_table_iii_has_three_rows_and_its_last_one_counts() -> None:
    tables = [
        DepthTable(
            slo_s,
            {"npu": FoundDepths(40, 40, 44), "cpu": FoundDepths(8, 6, 0 if slo_s < 2 else 11)},
        )
        for slo_s in SLOS_S
    ]
    report = list(lines([NPU, CPU], SLOS_S, Use(75, 88, 100), tables))
    at = report.index("queries within 2000 ms  npu  cpu")
    assert report[at + 1 : at + 4] == [
        "linear regression        40    8",
        "stress test              40    6",
        "fine-tuned together      44   11",
    ]
    assert "25.0% more queries at once" in report[-1]
    assert "with the others" not in report[-2]


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
        (["--devices", "0"], "--devices must be at least 1"),
        (["--price", "0"], "--price must be above 0"),
        (["--embedding-lanes", "cpu:9999"], "names core 9999, and this process may use"),
    ],
)
def test_refusals(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["profile", *arguments]) == 2
    assert message in capsys.readouterr().err
