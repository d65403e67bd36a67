"""In CI a test that skips for want of a tool that CI installs is an error.

Elsewhere it is skipped with its reason: `make test` needs Python and a C compiler only. The two
hooks are taken into tests/conftest.py; they act where the environment has HEDDLE_CI=1.
"""

import os
import re
from collections.abc import Generator
from typing import Final, TypeVar

import pytest

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

# What `make setup-all` and .ci/run install -> how the reason of a skip names it.
NEEDED: Final = {
    "triton": r"\btriton\b",
    "a C compiler": r"\bcompiler\b|\bkernel can't be compiled\b"
    r"|\bno kernel here\b(?!: the CPU is slow in bfloat16)",
    "the reader": r"\bheddle_reader\b|\breader has been trained\b",
    "llguidance": r"\bllguidance\b",
    "jsonschema": r"\bjsonschema\b",
    "sentence-transformers": r"\bsentence[-_]transformers\b",
    "Chromium": r"\bchromium\b",
    "Node": r"\bnode(\.js|js)?\b",
    "PostgreSQL": r"\b(postgresql|postgres|psycopg|pgvector)\b",
    "Ray": r"\bray\b",
    "LangGraph": r"\bLangGraph is not installed\b",
    "the clients": r"\bclient [a-z-]+ is not installed\b",
}


def missing_tool(reason: str) -> str | None:
    """Return the tool that a skip's reason names, if CI must have it."""
    for tool, words in NEEDED.items():
        if re.search(words, reason, re.IGNORECASE):
            return tool
    return None


def _checked(report: Report) -> Report:
    """Return the report, failed if it was skipped for a tool that CI must have."""
    if os.environ.get("HEDDLE_CI") != "1" or hasattr(report, "wasxfail"):
        return report
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        path, line, reason = report.longrepr
        if tool := missing_tool(reason):
            report.outcome = "failed"
            report.longrepr = f"{path}:{line}: CI must have {tool}. {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a test's skip into a failure where its reason names a needed tool."""
    return _checked((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Do the same for a module that skips as a whole."""
    return _checked((yield))
