"""The programs in examples/ run as their users run them, with the models that ship.

Two are started as programs, their engines in lanes of their own. The others run in this process,
and so do their engines: what they print is the same, and nothing has to be loaded anew.
"""

import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import heddle
from benchmarks.client_calls.serving import http_server
from heddle import Server
from heddle.server.http import create_app
from tests.end_to_end.conftest import KV_BYTES
from tests.helpers.llama_loop import llama_loop

__all__ = ["llama_loop"]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


Run = Callable[[str], list[str]]


def run(name: str, argument: object, folder: Path) -> str:
    """Start an example in a folder of its own and return its output."""
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


@pytest.fixture
def run_here(printed: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capsys) -> Run:
    """Return what runs an example on that corpus, in this process, and returns its lines."""
    inline = partial(Server, engine_host="inline", kv_cache_bytes=KV_BYTES)
    monkeypatch.setattr(heddle, "Server", inline, raising=False)
    monkeypatch.chdir(printed[0])

    def lines(name: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", [name, "corpus"])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return lines


def test_indexing_asking_and_adding_a_document(printed: tuple[Path, str]) -> None:
    answers = printed[1].splitlines()[-2:]
    assert answers == ["Ann Reed - mill", "Ida Moss - The Stone Bakery"]


def test_a_workflow_with_a_branch(run_here: Run) -> None:
    year, person = run_here("own_workflow.py")
    assert year.endswith("1823 - search > draft")
    assert person.endswith("Mary Dunn - search > draft > search_wide > answer")


def test_workflows_as_functions(run_here: Run) -> None:
    lines = run_here("as_functions.py")
    names = ["oneshot", "hyde", "multistep", "irg", "recomp", "careful"]
    assert [line.partition(": ")[0] for line in lines] == names
    assert lines[0] == "oneshot: Mary Dunn"


def test_a_pass_of_one_s_own(run_here: Run) -> None:
    lines = run_here("own_pass.py")
    assert lines == ["off: 1823, 2 embedded", "exact: 1823, 1 embedded"]


def test_an_engine_of_one_s_own(run_here: Run) -> None:
    lines = run_here("own_engine.py")
    assert lines == ["mill: 5 words, by word_ranker"]


def test_the_events_of_a_request(run_here: Run) -> None:
    lines = run_here("stream_events.py")
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


FRAMEWORKS = {
    "haystack_rag.py": ("haystack", ["Tom Wells", "Ann Reed"]),
    "llamaindex_rag.py": (
        "llama_index.llms.openai_like",
        ["Tom Wells - library", "Ann Reed - mill"],
    ),
}


@pytest.fixture(scope="module")
def url(printed: tuple[Path, str]) -> Iterator[str]:
    """Return the address of a server of that corpus, with the model that the programs name."""
    inline = {"engine_host": "inline", "kv_cache_bytes": KV_BYTES}
    with (
        Server(generator="reader", index=printed[0] / "corpus", **inline) as server,
        http_server(create_app(server, {})) as found,
    ):
        yield found


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_langgraph_program_and_what_wrapping_changes(url: str, tmp_path: Path, capsys) -> None:
    pytest.importorskip("langgraph", reason="LangGraph is not installed: make setup-all")
    source = (EXAMPLES / "langgraph_rag.py").read_text(encoding="utf-8")
    changed = [line for line in source.splitlines() if "# changed" in line]
    assert len(changed) == 2
    import_line, wrap_line = changed
    before = source.replace(f"{import_line}\n", "")
    before = before.replace(wrap_line, "    return graph").replace(
        "Path(__file__)", f"Path({str(EXAMPLES / 'x')!r})"
    )
    (tmp_path / "before.py").write_text(before, encoding="utf-8")
    found = []
    for path in (EXAMPLES / "langgraph_rag.py", tmp_path / "before.py"):
        runpy.run_path(str(path))["main"](url)
        found.append(capsys.readouterr().out.splitlines())
    wrapped, plain = found
    assert plain[:2] == [
        "Who founded Oak Mill? Ann Reed; tries: 1",
        "When was the Harbour Library opened? 1901; tries: 1",
    ]
    assert wrapped[:3] == plain
    assert wrapped[3] == "2 calls of one run, from retrieve, generate, rewrite"


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_two_changed_lines_have_heddle_answer_in_a_framework_s_program(
    name: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    module, answers = FRAMEWORKS[name]
    pytest.importorskip(module, reason=f"the client {module.split('.')[0]} is not installed")
    lines = (EXAMPLES / name).read_text(encoding="utf-8").splitlines()
    plain = [line for line in lines if not line.endswith("# changed")]
    assert len(lines) - len(plain) == 2
    (tmp_path / name).write_text("\n".join(plain), encoding="utf-8")
    (tmp_path / "notes").symlink_to(EXAMPLES / "notes")
    monkeypatch.setattr(sys, "argv", [name, url])
    for program in (tmp_path / name, EXAMPLES / name):
        runpy.run_path(str(program), run_name="__main__")
        assert capsys.readouterr().out.splitlines() == answers


def test_every_example_is_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [p.name for p in EXAMPLES.glob("*.py") if f"examples/{p.name}" not in listed] == []
