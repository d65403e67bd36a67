"""The programs in examples/ run as their users run them, with the models that ship."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def run(name: str, argument: object, folder: Path) -> str:
    """Run an example in a folder of its own and return its output."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, str(argument)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the folder with the corpus that the first example made, and its output."""
    folder = tmp_path_factory.mktemp("examples")
    return folder, run("index_and_ask.py", "corpus", folder)


def test_indexing_asking_and_adding_a_document(printed: tuple[Path, str]) -> None:
    answers = printed[1].splitlines()[-2:]
    assert answers == ["Ann Reed - mill", "Ida Moss - The Stone Bakery"]


def test_a_workflow_with_a_branch(printed: tuple[Path, str]) -> None:
    year, person = run("own_workflow.py", "corpus", printed[0]).splitlines()
    assert year.endswith("1823 - search > draft")
    assert person.endswith("Mary Dunn - search > draft > search_wide > answer")


def test_workflows_as_functions(printed: tuple[Path, str]) -> None:
    lines = run("as_functions.py", "corpus", printed[0]).splitlines()
    names = ["oneshot", "hyde", "multistep", "irg", "recomp", "careful"]
    assert [line.partition(": ")[0] for line in lines] == names
    assert lines[0] == "oneshot: Mary Dunn"


def test_a_pass_of_one_s_own(printed: tuple[Path, str]) -> None:
    lines = run("own_pass.py", "corpus", printed[0]).splitlines()
    assert lines == ["off: 1823, 2 embedded", "exact: 1823, 1 embedded"]


def test_an_engine_of_one_s_own(printed: tuple[Path, str]) -> None:
    lines = run("own_engine.py", "corpus", printed[0]).splitlines()
    assert lines == ["mill: 5 words, by word_ranker"]


def test_the_events_of_a_request(printed: tuple[Path, str]) -> None:
    lines = run("stream_events.py", "corpus", printed[0]).splitlines()
    assert lines[0] == "[retrieve]"
    assert lines[1].startswith("found: library, ")
    assert lines[2:4] == ["[answer]", "Tom Wells"]
    assert lines[4].endswith("tokens generated")


def test_a_client_over_http(printed: tuple[Path, str], start) -> None:
    server = start("serve", printed[0] / "corpus", "--port", 0)
    url = server.until(r"http://[\d.]+:\d+")
    answer, similarity = run("http_client.py", url, printed[0]).splitlines()
    assert answer == "Mary Dunn - ferry"
    near, far = (float(word) for word in similarity.removeprefix("similarity: ").split(" and "))
    assert near > 0.7 > 0.5 > far


def test_every_example_is_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [p.name for p in EXAMPLES.glob("*.py") if f"examples/{p.name}" not in listed] == []
