"""`heddle bench`: what is a benchmark, and what is none."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from heddle.cli.bench import benchmark_titles
from heddle.cli.main import main


def test_only_what_runs_is_a_benchmark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    for name, text in {
        "two_words": '"""Measures this.\n\nAnd more."""\nimport nothing_there\ndef run(): ...\n',
        "helper": '"""Runs nothing."""\ndef walk(): ...\n',
        "prepare": '"""Prepares."""\ndef run(): ...\n',
    }.items():
        (folder / f"{name}.py").write_text(text)
    package = ModuleType("benchmarks")
    package.__path__ = [str(folder)]
    monkeypatch.setitem(sys.modules, "benchmarks", package)
    assert benchmark_titles() == {"two-words": "Measures this."}


def test_the_benchmarks_of_the_checkout(capsys):
    assert main(["bench", "list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    names = [line.split()[0] for line in listed]
    assert not any("heddle bench" in line for line in listed)
    assert {"ivf-step", "llm-parity", "runtime-overhead", "workflows"} <= set(names)
    assert main(["bench", "nope"]) == 2
    assert "benchmark 'nope' is unknown; there are" in capsys.readouterr().err
