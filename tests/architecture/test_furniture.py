"""The files around the code agree with it and with each other."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import heddle

ROOT = Path(__file__).parents[2]
VERSIONS = ["3.11", "3.12", "3.13", "3.14"]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_ci_runs_the_versions_that_the_package_names() -> None:
    jobs = yaml.safe_load(text_of(".github/workflows/ci.yml"))["jobs"]
    assert jobs["tests"]["strategy"]["matrix"]["python"] == VERSIONS
    named = tomllib.loads(text_of("pyproject.toml"))["project"]["classifiers"]
    prefix = "Programming Language :: Python :: 3."
    assert [
        f"3.{name.removeprefix(prefix)}" for name in named if name.startswith(prefix)
    ] == VERSIONS


@pytest.mark.parametrize(
    "name",
    [
        ".github/workflows/ci.yml",
        ".ci/run",
        "README.md",
        "CONTRIBUTING.md",
        "docs/development/testing.md",
        "docs/development/releasing.md",
        "tests/README.md",
    ],
)
def test_every_make_target_that_a_file_names_is_there(name: str) -> None:
    makefile = text_of("Makefile")
    found = re.findall(r"(?:^|`|run: |tests |dist |set-up )make ([a-z-]+)", text_of(name), re.M)
    assert found, "no target is named: the pattern is wrong"
    assert [t for t in found if not re.search(rf"^{t}:", makefile, re.M)] == []


def test_the_five_papers_can_be_cited() -> None:
    papers = yaml.safe_load(text_of("CITATION.cff"))["references"]
    assert len(papers) == 5
    assert all(paper["authors"] and (paper.get("doi") or paper.get("url")) for paper in papers)
    readme = text_of("README.md")
    assert all(name in readme for name in ("HedraRAG", "FusionRAG", "Teola", "WindVE", "Trinity"))


def test_commit_subjects_are_checked() -> None:
    (local,) = yaml.safe_load(text_of(".pre-commit-config.yaml"))["repos"]
    hooks = {hook["id"]: hook for hook in local["hooks"]}
    length = re.compile(hooks["subject-length"]["entry"], re.MULTILINE)
    assert length.search("x" * 73)
    assert not length.search(f"{'x' * 72}\n\n{'y' * 100}")
    one_change = re.compile(hooks["subject-one-change"]["entry"], re.MULTILINE)
    assert one_change.search("llm: do this; do that")
    assert not one_change.search("llm: do this\n\nIt does that; and more.")


def test_the_version_is_written_once() -> None:
    project = tomllib.loads(text_of("pyproject.toml"))
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "heddle.__version__"}
    assert re.fullmatch(r"\d+\.\d+\.\d+", heddle.__version__)


def test_the_container_is_built_of_what_is_here() -> None:
    dockerfile, ignored = text_of("Dockerfile"), text_of(".dockerignore").splitlines()
    makefile = text_of("Makefile")
    (torch,) = re.findall(r"^ARG TORCH=(\S+)$", dockerfile, re.M)
    assert f"TORCH ?= {torch}" in makefile
    built = re.findall(r"\./(models/\w+)", dockerfile)
    assert built == ["models/embedder", "models/extractor"]
    assert [name for name in (*built, "heddle", "constraints.txt") if name in ignored] == []
    extras = tomllib.loads(text_of("pyproject.toml"))["project"]["optional-dependencies"]
    (taken,) = re.findall(r"heddle\[([\w,]+)\]", dockerfile)
    assert set(taken.split(",")) <= extras.keys()


def test_what_an_image_is_not_made_of_leaves_no_required_file_out() -> None:
    ignored = {line for line in text_of(".dockerignore").splitlines() if not line.startswith("#")}
    needed = {"README.md", "LICENSE", "pyproject.toml", "heddle", "models"}
    assert ignored & needed == set()
    assert "models/embedder/heddle_embedder/model" in ignored, "the weights are fetched and checked"
