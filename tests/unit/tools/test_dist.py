"""What `make dist` refuses: wheels with poor metadata, foreign names or files left behind."""

import zipfile
from pathlib import Path

import pytest

from tools.dist import (
    DistError,
    Package,
    expect,
    metadata_problems,
    packages,
    problems,
    run,
    source_files,
)

GOOD = """\
Metadata-Version: 2.4
Name: loom
Version: 1.0
Summary: Weaves
Author: The weavers
Keywords: weaving
Project-URL: Paper, https://example.org/paper
Classifier: Development Status :: 3 - Alpha
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Software Development
Classifier: Typing :: Typed
License-Expression: Apache-2.0
License-File: LICENSE
Description-Content-Type: text/markdown

# Loom
"""
FILES = ("loom/__init__.py", "loom/data.jsonl")


@pytest.fixture
def package(tmp_path: Path) -> Package:
    for name in (*FILES, "loom/__pycache__/x.pyc"):
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return Package(tmp_path / "source", "loom")


def wheel_of(folder: Path, *names: str, about: str = GOOD) -> Path:
    wheel = folder / "loom-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in names:
            archive.writestr(name, "")
        archive.writestr("loom-1.0.dist-info/METADATA", about)
    return wheel


def test_a_whole_wheel_passes(tmp_path: Path, package: Package) -> None:
    assert list(problems(wheel_of(tmp_path, *FILES), package)) == []


def test_a_second_top_level_name_is_named(tmp_path: Path, package: Package) -> None:
    wheel = wheel_of(tmp_path, *FILES, "benchmarks/__init__.py")
    name, foreign = problems(wheel, package)
    assert name == "installs ['benchmarks', 'loom'], not loom only"
    assert foreign.endswith("['benchmarks/__init__.py']")


def test_a_data_file_left_behind_is_named(tmp_path: Path, package: Package) -> None:
    assert list(problems(wheel_of(tmp_path, FILES[0]), package)) == ["lacks ['loom/data.jsonl']"]


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ("Author: The weavers", "no author"),
        ("Keywords: weaving", "no keywords"),
        ("Project-URL: Paper, https://example.org/paper", "no URL"),
        ("Classifier: Typing :: Typed", "no classifier 'Typing'"),
        ("License-File: LICENSE", "no license"),
        ("Description-Content-Type: text/markdown", "no readme in Markdown"),
    ],
)
def test_what_the_metadata_lacks_is_named(field: str, problem: str) -> None:
    (found,) = metadata_problems(GOOD.replace(f"{field}\n", "").encode())
    assert problem in found


def test_a_command_that_fails_is_told_with_its_output(tmp_path: Path) -> None:
    with pytest.raises(DistError, match=r"(?s)sh -c .* failed:.*no such thing"):
        run("sh", "-c", "echo no such thing >&2; exit 3", folder=tmp_path)


def test_programs_run_without_the_checkout_on_their_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "somewhere")
    assert run("sh", "-c", 'echo "[$PYTHONPATH]"', folder=tmp_path) == "[]\n"


def test_what_a_program_must_say() -> None:
    expect("Ann Reed, in mill.txt", "Ann Reed", "mill.txt")
    with pytest.raises(DistError, match=r"didn't say 'mill.txt', but:\nAnn Reed"):
        expect("Ann Reed", "Ann Reed", "mill.txt")


def test_heddle_and_its_models_are_packages() -> None:
    found = {package.module: set(source_files(package)) for package in packages()}
    models = {"heddle_embedder", "heddle_extractor", "heddle_reader"}
    assert found.keys() == {"heddle", *models}
    assert all(f"{module}/__init__.py" in files for module, files in found.items())
