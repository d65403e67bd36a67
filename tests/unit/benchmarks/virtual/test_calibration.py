import json
from dataclasses import replace

import pytest

from benchmarks.coscheduling.asks import NPROBES
from benchmarks.virtual.calibration import Calibration, RealRun
from benchmarks.virtual.cell_prediction import Asked, compressed, predicted
from benchmarks.virtual.contenders import FIFO, OWN, WAYS
from benchmarks.virtual.corpora import RECORD
from benchmarks.virtual.scripts import FIVE
from heddle.core.errors import InputError
from heddle.simulator.scripted.shared_core import NOTICED_S

SHARES = {"light": 0.02, "heavy": 0.4}
WORKED_S = {"llm": 3.0, "embedding": 0.2, "vector": 0.5}


@pytest.fixture
def real(tmp_path):
    """The path of a short real run, of which only facts and latencies are made up."""
    corpora = {
        name: {f"search_share_{FIFO}": share, "capacity_per_s": 4.0}
        for name, share in SHARES.items()
    }
    nprobes = {"light": [None], "heavy": [8 * nprobe for nprobe in NPROBES]}
    engines = {
        name: {"calls": "whole batches", "prompt_chunk": 512, "nprobes": scanned}
        for name, scanned in nprobes.items()
    }
    settings = {
        "blocks": 1,
        "asks": 5,
        "saturating": 20,
        "alone": 7,
        "load": 0.8,
        "vectors": 4_000_000,
        "corpora": corpora,
        "engines": engines,
    }
    rows = [
        {
            "cell": corpus,
            "contender": contender,
            "number": 0,
            "latencies_s": [0.5, 1.0],
            "worked_s": WORKED_S,
            "driver_s": 0.25,
        }
        for corpus in SHARES
        for contender in WAYS
    ]
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"seed": 0, "settings": settings, "rows": rows}))
    return path


def test_a_machine_gets_the_real_share_of_search_and_the_mean_capacity(real) -> None:
    found = Calibration.of(RealRun.read(real, RECORD))
    for name, share in SHARES.items():
        assert found[name].search_share() == pytest.approx(share, rel=0.1)
    light, heavy = (found[name].slowness() for name in SHARES)
    assert light * heavy == pytest.approx(1.0, rel=0.1)
    assert found["light"].factors["llm"] == found["heavy"].factors["llm"]


def test_engines_work_as_long_as_they_did(real) -> None:
    run = RealRun.read(real, RECORD)
    found = Calibration("light", run)
    found.find_work(OWN, WAYS[OWN])
    blocks = found.served(OWN, WAYS[OWN])
    assert blocks.worked_s == pytest.approx(WORKED_S, rel=0.1)
    assert blocks.cycles * found.corpus.machine.router_s == pytest.approx(0.25, rel=0.1)


def test_a_run_without_the_work_of_its_blocks_predicts_nothing(real) -> None:
    run = json.loads(real.read_text())
    for row in run["rows"]:
        del row["driver_s"]
    real.write_text(json.dumps(run))
    found = Calibration("light", RealRun.read(real, RECORD))
    with pytest.raises(InputError, match="has no worked_s or driver_s of heddle"):
        found.find_work(OWN, WAYS[OWN])


def test_each_contender_is_checked_on_the_real_arrivals(real) -> None:
    checks = Calibration("light", RealRun.read(real, RECORD)).checks()
    assert [check.contender for check in checks] == list(WAYS)
    assert {check.real_s for check in checks} == {0.75}
    assert all(check.virtual_s > 0 for check in checks)


def test_a_run_without_a_contender_is_refused(real) -> None:
    run = json.loads(real.read_text())
    run["rows"] = [row for row in run["rows"] if row["contender"] != FIFO]
    real.write_text(json.dumps(run))
    with pytest.raises(InputError, match="has no latencies of"):
        RealRun.read(real, RECORD)


def test_a_result_of_another_benchmark_is_refused_by_its_field(real) -> None:
    real.write_text(json.dumps({"seed": 0, "settings": {}, "rows": []}))
    with pytest.raises(InputError, match="has no field"):
        RealRun.read(real, RECORD)


def test_a_file_that_is_not_there_is_named(tmp_path) -> None:
    with pytest.raises(InputError, match=r"missing\.json isn't there"):
        RealRun.read(tmp_path / "missing.json", RECORD)


def test_a_cell_predicts_the_run_and_another_load(real, capsys) -> None:
    run = json.loads(real.read_text())
    run["settings"]["recorded"] = json.loads(RECORD.read_text())
    real.write_text(json.dumps(run))
    found = predicted(real, 1e-4, Asked("poisson", 0.5, 20, 0))
    by_name = {row["corpus"]: row for row in found["rows"]}
    assert list(by_name) == list(SHARES)
    for row in by_name.values():
        assert row["real_s"] == (0.75, pytest.approx(0.975))
        assert 0 < row["asked_s"][0] <= row["asked_s"][1]
        assert row["errors"][0] == pytest.approx(row["predicted_s"][0] / 0.75 - 1)
    worst = max(abs(row["errors"][0]) for row in by_name.values())
    assert found["headline"]["p50_error"] == worst
    assert "poisson at 0.5 of the capacity" in capsys.readouterr().out
    assert all(row["with_losses"] is None for row in by_name.values())


@pytest.mark.slow
def test_a_cell_outlasts_the_loss_of_a_node(real) -> None:
    run = json.loads(real.read_text())
    run["settings"]["recorded"] = json.loads(RECORD.read_text())
    real.write_text(json.dumps(run))
    asked = Asked("poisson", 0.5, 40, 0, losses=1, restart_s=3.0)
    for row in predicted(real, 1e-4, asked)["rows"]:
        lost = row["with_losses"]
        assert lost["failed"] == 0
        assert lost["retries"] > 0
        assert lost["longest_s"] > NOTICED_S + asked.restart_s
        assert lost["asked_s"][1] > row["asked_s"][1]


def test_a_cell_is_not_predicted_from_another_runs_work(real) -> None:
    with pytest.raises(InputError, match="has not recorded its work"):
        predicted(real, 1e-4, Asked("poisson", 0.5, 20, 0))


def test_the_routers_cycles_cost_time(real) -> None:
    corpus = Calibration("light", RealRun.read(real, RECORD)).corpus
    _, asks = corpus.asks(FIVE, 5, 0.0, 0)
    quick_s = corpus.server(WAYS[OWN]).serve(asks)
    corpus.machine = replace(corpus.machine, router_s=0.2)
    slow_s = corpus.server(WAYS[OWN]).serve(asks)
    assert sum(slow_s) - sum(quick_s) > 0.2 * len(asks)


def test_a_traces_arrivals_keep_their_bursts_at_another_rate() -> None:
    assert compressed([10.0, 10.0, 40.0], 4.0) == [0.0, 0.0, 0.5]
