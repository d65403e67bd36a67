"""Benchmarks of two commits, in turns."""

import json
from pathlib import Path

import pytest

from tools import bench_turns
from tools.bench_turns import ROOT, compared, main


def test_the_median_of_the_turns_ratios_counts():
    turns = [({"ms": 2.0}, {"ms": 2.2}), ({"ms": 4.0}, {"ms": 4.0}), ({"ms": 1.0}, {"ms": 3.0})]
    (row,) = compared("walk", turns)
    assert (row.benchmark, row.figure) == ("walk", "ms")
    assert (row.before, row.now) == (2.0, 3.0)
    assert (row.ratio, row.ratio_low, row.ratio_high) == (pytest.approx(1.1), 1.0, 3.0)
    assert "1.100" in row.line()


def test_figures_that_one_side_lacks_or_that_are_zero_have_no_ratio():
    turns = [({"ms": 2.0, "old": 1.0, "zero": 0.0}, {"ms": 1.0, "new": 1.0, "zero": 0.0})]
    assert [row.figure for row in compared("walk", turns)] == ["ms"]


def test_the_first_of_a_turn_alternates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    order = []

    def headline(tree: Path, benchmark: str, *, full: bool) -> dict[str, float]:
        order.append("now" if tree == ROOT else "before")
        return {"ms": 1.0}

    monkeypatch.setattr(bench_turns, "headline", headline)
    result = tmp_path / "result.json"
    assert main(["walk", "--against", "HEAD", "--turns", "2", "--json", str(result)]) == 0
    assert order == ["before", "now", "now", "before"]
    record = json.loads(result.read_text())
    assert record["settings"] == {"against": "HEAD", "turns": 2, "full": False}
    assert record["headline"] == {"walk.ms": 1.0}
    assert record["machine"]["cores"] >= 1
    assert len(record["rows"]) == 1


def test_a_checkout_is_removed_again():
    with bench_turns.checkout("HEAD") as tree:
        assert (tree / "heddle").is_dir()
    assert not tree.exists()
