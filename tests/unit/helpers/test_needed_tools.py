"""A skip is an error in CI where its reason names a tool that CI installs, and nowhere else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.needed_tools import missing_tool

ROOT = Path(__file__).parents[3]
OPTIONS = ("-p", "no:cacheprovider", "--continue-on-collection-errors")
MODULE_SKIPS = 'import pytest\npytest.importorskip("triton_that_is_not_here", reason="no triton")\n'
TESTS_SKIP = """
import pytest
def test_works(): pass
def test_without_a_tool(): pytest.skip("there is no C compiler here")
def test_as_root(): pytest.skip("root may read anything")
@pytest.mark.xfail(strict=True, reason="no ray of hope")
def test_fails(): raise AssertionError
"""


def outcome(folder: Path, setting: str | None) -> str:
    """Run the two modules with our conftest and return pytest's last line."""
    (folder / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text(encoding="utf-8"))
    (folder / "test_module.py").write_text(MODULE_SKIPS)
    (folder / "test_some.py").write_text(TESTS_SKIP)
    environment = {name: v for name, v in os.environ.items() if name != "HEDDLE_CI"}
    if setting is not None:
        environment["HEDDLE_CI"] = setting
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *OPTIONS, "--rootdir", folder, folder],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize("setting", [None, "0"])
def test_elsewhere_it_is_skipped(tmp_path: Path, setting: str | None) -> None:
    assert "1 passed, 3 skipped, 1 xfailed" in outcome(tmp_path, setting)


def test_in_ci_it_is_an_error(tmp_path: Path) -> None:
    said = outcome(tmp_path, "1")
    assert "1 failed, 1 passed, 1 skipped, 1 xfailed, 1 error" in said
    assert "CI must have a C compiler. Skipped: there is no C compiler here" in said
    assert "CI must have triton. Skipped: no triton" in said


@pytest.mark.parametrize(
    ("reason", "tool"),
    [
        ("triton isn't installed: pip install 'heddle[gpu]'", "triton"),
        ("no kernel here: there is no C compiler", "a C compiler"),
        ("could not import 'heddle_reader': No module named 'heddle_reader'", "the reader"),
        ("no PostgreSQL server here", "PostgreSQL"),
        ("Node.js is not installed", "Node"),
        ("root may read anything", None),
        ("this machine has a CUDA device", None),
        ("the real data is not at hand: set HEDDLE_DATA", None),
        ("arrays differ", None),
    ],
)
def test_the_reason_names_the_tool(reason: str, tool: str | None) -> None:
    assert missing_tool(reason) == tool
