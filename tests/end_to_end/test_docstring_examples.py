"""The examples in Heddle's docstrings run, and print what their comments say.

They run in one folder, on the notes of examples/. `server` is there for them; a server that an
example makes itself has its engines in this process, too.
"""

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

import heddle.app.server as server_module
from heddle import Server
from heddle.app.assembly.start import RunningServer
from heddle.app.server_config import ServerConfig
from heddle.teola import OPT_Pass
from heddle.teola.engine import REGISTERED
from tests.end_to_end.conftest import KV_BYTES
from tests.helpers.tiny_server import index_documents
from tools.reference.docstrings import parse

ROOT: Final = Path(__file__).parents[2]
DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# What an example needs beside Heddle: the module, and why a test without it is left out.
NEEDED: Final = {
    "wrap": ("langgraph", "LangGraph is not installed: make setup-all"),
    "Constraint": ("llguidance", "llguidance is not installed"),
}


class Example(NamedTuple):
    """The code of a docstring's section `Example`, and whose docstring it is."""

    owner: str
    code: str

    @property
    def prints(self) -> list[str]:
        """What its comments say that it prints, line by line."""
        tokens = tokenize.generate_tokens(io.StringIO(self.code).readline)
        return [one.string.removeprefix("# ") for one in tokens if one.type == tokenize.COMMENT]


def examples_in(node: ast.AST, owner: str) -> Iterator[Example]:
    """Return the examples of a module, a class or a function, and of all within it."""
    if isinstance(node, DOCUMENTED) and (code := parse(ast.get_docstring(node)).example):
        yield Example(owner, code)
    for inner in ast.iter_child_nodes(node):
        yield from examples_in(inner, f"{owner}.{inner.name}" if hasattr(inner, "name") else owner)


def examples() -> Iterator[Example]:
    """Return every example of the package."""
    for path in sorted((ROOT / "heddle").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "Example:" in text:
            module = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
            yield from examples_in(ast.parse(text), module.removesuffix(".__init__"))


EXAMPLES: Final = list(examples())
start: Final = server_module.start


def start_inline(config: ServerConfig, *pieces: Any, **how: Any) -> RunningServer:
    """Start a server whose engines are in this process and take little memory."""
    small = replace(config, engine_host="inline", kv_cache_bytes=KV_BYTES)
    return start(small, *pieces, **how)


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run the examples in a folder that has `corpus`, the index of the notes of examples/."""
    found = tmp_path_factory.mktemp("docstrings")
    (found / "notes").symlink_to(ROOT / "examples" / "notes")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(found)
        patch.setattr(server_module, "start", start_inline)
        index_documents([Path("notes")], Path("corpus"))
        yield found


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    """Return the server that examples find."""
    with Server("reader", "corpus") as running:
        yield running


@pytest.fixture
def _registries() -> Iterator[None]:
    """Forget what an example has registered in Teola's front end."""
    yield
    REGISTERED.clear()
    OPT_Pass.passes.clear()


@pytest.mark.usefixtures("_registries")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.owner)
def test_an_example_prints_what_it_says(
    example: Example, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    if needed := NEEDED.get(example.owner.rpartition(".")[2]):
        pytest.importorskip(needed[0], reason=needed[1])
    exec(compile(example.code, example.owner, "exec"), {"server": server})
    assert capsys.readouterr().out.splitlines() == example.prints
    assert example.prints, "it shows nothing that a test can check"


def test_what_users_and_engine_developers_begin_with_has_an_example() -> None:
    owners = {example.owner.removeprefix("heddle.") for example in EXAMPLES}
    assert owners >= {
        "app.server.Server",
        "app.server.Server.ask",
        "app.server.Server.search",
        "app.server.Server.submit",
        "app.server_config.ServerConfig",
        "core.ports.EnginePort",
        "core.ports.SteppedEngine",
        "passes.runner.GraphPass",
        "teola",
        "workflow.function.as_workflow",
        "workflow.ragraph.RAGraph",
    }
