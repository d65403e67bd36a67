"""The shares of a CI run: times add up, budgets are shown, exit codes are passed on."""

import sys
from pathlib import Path

import pytest

from tools.ci_shares import BUDGETS_S, main


@pytest.fixture
def times(tmp_path: Path) -> Path:
    file = tmp_path / "build" / "times.tsv"
    assert main(["begin"], file) == 0
    return file


def test_the_exit_code_is_passed_on_and_the_time_noted(times: Path) -> None:
    assert main(["run", "tests", sys.executable, "-c", "raise SystemExit(7)"], times) == 7
    assert main(["run", "tests", sys.executable, "-c", ""], times) == 0
    assert [line.split("\t")[0] for line in times.read_text().splitlines()] == ["tests", "tests"]


def test_shares_add_up_beside_their_budgets(
    times: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ["tests 100 600", "set-up 600 661.2", "tests 661.2 791.6", "dist 700 759"]
    times.write_text("".join(f"{row}\n" for row in rows).replace(" ", "\t"))
    assert main(["report"], times) == 0
    assert capsys.readouterr().out.splitlines() == [
        "share                   took  budget",
        "tests                  10:30   10:00  over budget",
        "dist                    0:59    3:00",
        "attacks                 none    4:00",
        "clients and page        none    3:00",
        "Ray and PostgreSQL      none    3:00",
        "dry GPU day             none    2:00",
        "set-up                  1:01",
        "in all                 11:32   25:00",  # dist ran beside the tests
    ]


def test_a_new_run_begins_at_nothing(times: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times.write_text("tests\t0\t5\n")
    main(["begin"], times)
    main(["report"], times)
    assert "in all                  0:00   25:00" in capsys.readouterr().out


def test_the_budget_of_a_round_is_25_minutes() -> None:
    assert sum(BUDGETS_S.values()) == 25 * 60


@pytest.mark.parametrize("arguments", [[], ["run", "tests"], ["report", "more"]])
def test_other_words_are_refused(
    arguments: list[str], times: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments, times) == 2
    assert "prints each share beside its budget" in capsys.readouterr().err
