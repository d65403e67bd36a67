"""`heddle bench`: what is a benchmark, and what is none."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from heddle.cli import bench
from heddle.cli.bench import benchmark_titles
from heddle.cli.main import main


def checkout(root: Path) -> Path:
    """Make the two folders that a checkout is recognised by, and return their parent."""
    for name in ("heddle", "benchmarks"):
        (root / name).mkdir()
        (root / name / "__init__.py").touch()
    return root


def test_only_what_runs_is_a_benchmark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = checkout(tmp_path) / "benchmarks"
    for name, text in {
        "two_words": '"""Measures this.\n\nAnd more."""\nimport nothing_there\ndef run(): ...\n',
        "helper": '"""Runs nothing."""\ndef walk(): ...\n',
        "prepare": '"""Prepares."""\ndef run(): ...\n',
    }.items():
        (folder / f"{name}.py").write_text(text)
    package = ModuleType("benchmarks")
    package.__path__ = [str(folder)]
    monkeypatch.setitem(sys.modules, "benchmarks", package)
    monkeypatch.setattr(bench, "checkout_roots", lambda: (tmp_path,))
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert benchmark_titles() == {"two-words": "Measures this."}
    assert main(["bench", "two-words"]) == 2
    assert "needs the package nothing_there" in capsys.readouterr().err


def test_the_current_folder_may_be_the_checkout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(bench, "__file__", str(tmp_path / "site-packages/heddle/cli/bench.py"))
    (checkout(tmp_path) / "benchmarks" / "one.py").write_text('"""One."""\ndef run(): ...\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert main(["bench", "list"]) == 0
    assert capsys.readouterr().out.split() == ["one", "One."]
    assert sys.path[0] == str(tmp_path)


def test_outside_a_checkout_there_are_no_benchmarks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(bench, "__file__", str(tmp_path / "site-packages/heddle/cli/bench.py"))
    (tmp_path / "benchmarks").mkdir()  # of somebody else
    (tmp_path / "benchmarks" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "list"]) == 2
    assert "run `heddle bench` in a checkout of Heddle" in capsys.readouterr().err


def test_the_benchmarks_of_the_checkout(capsys):
    assert main(["bench", "list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    names = [line.split()[0] for line in listed]
    assert not any("heddle bench" in line for line in listed)
    assert {"ivf-step", "llm-parity", "runtime-overhead", "workflows"} <= set(names)
    assert main(["bench", "nope"]) == 2
    assert "benchmark 'nope' is unknown; there are" in capsys.readouterr().err


def test_an_option_goes_to_the_benchmark_that_takes_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    asked = []

    def run(quick: bool, seed: int, *, bar: bool = False, questions: int = 7):
        asked.append((quick, seed, bar, questions))
        return {"settings": {}, "rows": [], "headline": {"x": 1.0}}

    module = ModuleType("benchmarks.made_up")
    module.run = run
    monkeypatch.setitem(sys.modules, "benchmarks.made_up", module)
    monkeypatch.setattr("heddle.cli.bench.benchmark_titles", lambda: {"made-up": "Made up."})
    assert main(["bench", "made-up"]) == 0
    assert main(["bench", "made-up", "--bar", "--questions", "3", "--seed", "2"]) == 0
    assert asked == [(False, 0, False, 7), (False, 2, True, 3)]
    assert main(["bench", "made-up", "--model", "reader"]) == 2
    assert "made-up has no option --model" in capsys.readouterr().err
