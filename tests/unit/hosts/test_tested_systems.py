import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from heddle.hosts.tested_systems import (
    PYTHON_MAX,
    PYTHON_MIN,
    TESTED,
    SystemFacts,
    untested,
)

LINUX = SystemFacts("Linux", "x86_64", "glibc", 64, "CPython", (3, 11))


@pytest.mark.parametrize("python", [PYTHON_MIN, PYTHON_MAX])
def test_what_is_tested_needs_no_note(python):
    assert untested(replace(LINUX, python=python)) == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"system": "Windows", "machine": "AMD64", "libc": ""}, "use WSL 2"),
        ({"system": "Darwin", "libc": ""}, "macOS"),
        ({"system": "FreeBSD", "libc": ""}, "FreeBSD"),
        ({"libc": ""}, "without glibc, such as Alpine"),
        ({"machine": "aarch64"}, "aarch64 processor"),
        ({"machine": "i686", "bits": 32}, "32-bit Python"),
        ({"implementation": "PyPy"}, "PyPy 3.11: torch"),
        ({"python": (3, 15)}, "CPython 3.15: newer"),
        ({"python": (3, 10)}, "needs Python 3.11"),
    ],
)
def test_each_difference_has_its_note(change, said):
    (note,) = untested(replace(LINUX, **change))
    assert said in note


def test_several_differences_are_all_named():
    assert len(untested(SystemFacts("Darwin", "arm64", "", 64, "CPython", (3, 15)))) == 3


def test_this_process_can_be_described():
    facts = SystemFacts.read()
    assert facts.bits in (32, 64)
    assert facts.python >= PYTHON_MIN


def test_the_versions_are_those_that_the_package_names():
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    named = [c.rpartition(" ")[2] for c in project["classifiers"] if ":: Python :: 3." in c]
    assert [tuple(map(int, v.split("."))) for v in (named[0], named[-1])] == [
        PYTHON_MIN,
        PYTHON_MAX,
    ]
    assert all(".".join(map(str, v)) in TESTED for v in (PYTHON_MIN, PYTHON_MAX))
