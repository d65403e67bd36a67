"""The programs of `heddle bench adapters` differ by the lines that it counts, and by no other."""

import difflib

import pytest

from benchmarks.adapters import ADAPTING, FRAMEWORKS, lines_changed

PROGRAMS = [name for name in FRAMEWORKS if (ADAPTING / f"{name}_before.py").is_file()]


@pytest.mark.parametrize("framework", PROGRAMS)
def test_a_program_after_has_two_other_lines(framework: str):
    before, after = (
        (ADAPTING / f"{framework}_{variant}.py").read_text(encoding="utf-8").splitlines()
        for variant in ("before", "after")
    )
    assert lines_changed(framework) <= 2
    added = [line for line in difflib.ndiff(before, after) if line.startswith("+ ")]
    assert any("heddle.wrap(" in line for line in added)
    assert "+ import heddle" in added
