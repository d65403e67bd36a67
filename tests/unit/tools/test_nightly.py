"""The night's jobs: each is run and noted, also after another has failed."""

import datetime
import json
from pathlib import Path

import pytest

from tools import nightly
from tools.nightly import Job, jobs, main

NIGHT = datetime.date(2026, 11, 23)


def test_a_night_has_tests_mutants_simulations_and_the_benchmarks_asked_for() -> None:
    names = [job.name for job in jobs(NIGHT, ["ivf-step"])]
    assert names == ["tests", "mutants", "simulation", "bench ivf-step"]


def test_no_two_nights_and_no_test_share_a_seed() -> None:
    first, second = (
        int(next(job for job in jobs(night, []) if job.name == "simulation").arguments[3])
        for night in (NIGHT, NIGHT + datetime.timedelta(days=1))
    )
    assert second - first == nightly.SEEDS
    assert first >= 10 * nightly.SEEDS  # the tests' seeds end long before


def test_every_job_runs_and_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [Job("one", ("-c", "raise SystemExit('broken')")), Job("two", ("-c", "print('fine')"))]
    monkeypatch.setattr(nightly, "jobs", lambda night, benches: iter(made))
    result = tmp_path / "nightly.json"
    assert main(["--json", str(result)]) == 1
    found = json.loads(result.read_text())
    assert found["headline"] == {"jobs": 2, "passed": 1}
    assert [(row["name"], row["code"], row["said"]) for row in found["rows"]] == [
        ("one", 1, "broken"),
        ("two", 0, "fine"),
    ]
    assert main(["--json", str(result), "--only", "two"]) == 0
    assert main(["--json", str(result), "--only", "three"]) == 1
    assert "one: FAILED" in capsys.readouterr().out
