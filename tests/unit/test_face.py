"""The public face: what `heddle` exports, with which signatures, as type checkers see it."""

import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import get_type_hints

import pytest

import heddle
from heddle.app.request_options import CheckedEmbedding, CheckedRequest
from heddle.core.errors import ConfigError, InputError
from heddle.workflow.writing import Writing
from tools.reference.signatures import signature_text

ROOT = Path(__file__).parents[2]
SIGNATURES = {
    heddle.Server: "(generator: str | Path | None = 'extract', index: str | Path | None = None, "
    "*, passes: Sequence[GraphPass | CyclePass] = (), "
    "engines: Sequence[OwnEngine | SteppedEngine | EnginePort] = (), "
    "**settings: Unpack[ServerSettings]) -> None",
    heddle.Server.from_config: "(config: ServerConfig, *, needs_vectors: bool = True, "
    "extensions: Extensions | None = None) -> Self",
    heddle.Server.app: "(self, workflow: str | RAGraph | WorkflowFunction | Workflow) -> App",
    heddle.Server.submit: "(self, workflow: str | RAGraph | WorkflowFunction | Workflow | App, "
    "inputs: str | Mapping[str, object], **options: Unpack[RequestOptions]) -> Handle",
    heddle.Server.embed: "(self, texts: Sequence[str], **options: Unpack[EmbeddingOptions]) "
    "-> Vectors",
    heddle.Server.search: "(self, query: str, **options: Unpack[SearchOptions]) -> SearchResult",
    heddle.Server.submit_embedding: "(self, texts: Sequence[str], "
    "**options: Unpack[EmbeddingOptions]) -> Future[Vectors]",
    heddle.ServerConfig.of: "(generator: str | Path | None = None, "
    "index: str | Path | CorpusPlace | None = None, settings: Mapping[str, Any] = {}) -> Self",
    heddle.App.invoke: "(self, inputs: str | Mapping[str, object], "
    "**how: Unpack[RequestOptions]) -> Answer",
    heddle.App.stream: "(self, inputs: str | Mapping[str, object], "
    "**how: Unpack[RequestOptions]) -> Iterator[RequestEvent]",
    heddle.App.abatch: "(self, many: Sequence[str | Mapping[str, object]], *, "
    "return_exceptions: bool = False, **how: Unpack[RequestOptions]) "
    "-> Sequence[Answer | Exception]",
}
# The packages that adapters import; those of tests without extras are not there.
ADAPTED = {
    "heddle.adapters.haystack": "haystack",
    "heddle.adapters.langchain": "langchain_core",
    "heddle.adapters.llamaindex": "llama_index",
}
# What pages import beside the face: adapters, another front end, what own passes are written with.
OPEN_MODULES = {
    *ADAPTED,
    "heddle.teola",
    "heddle.app.chat.tool_calls",
    "heddle.app.chat.tools",
    "heddle.core.primitives",
    "heddle.passes.cycle_view",
    "heddle.workflow.synthesis",
}
PROGRAM = """
from collections.abc import Iterator

from heddle import App, Handle, Optimizations, Server, ServerConfig

server = Server("reader", "corpus", shards=2, long_texts="window", recall=0.95)
Server("reader", "corpus", optimisations="approx")  # wrong: a misspelt keyword
Server("reader", "corpus", shards="2")  # wrong: a text for a number
Server("reader", "corpus", long_texts="windows")  # wrong: an unknown word
config = ServerConfig(dtype="float32", optimizations=Optimizations.APPROX)
ServerConfig(dtype="float17")  # wrong: an unknown word
app: App = server.app("oneshot")
text: str = app.invoke("Why?", topk=3, hybrid=True, priority="bulk", tenant="ann").text
app.invoke("Why?", top_k=3)  # wrong: a misspelt keyword
app.invoke("Why?", deadline_s="soon")  # wrong: a text for a number
app.stream("Why?", kv_reuse=0.15)  # wrong: a number for a policy
answers = app.batch(["Why?"], return_exceptions=True, where={"lang": "en"})
handle: Handle = server.submit("oneshot", "Why?", optimizations="approx")
server.submit("oneshot", "Why?", priority="urgent")  # wrong: an unknown word
titles = [passage.title for passage in server.search("a", topk=3, rerank=True).passages]
server.search("a", top_k=3)  # wrong: a misspelt keyword
vectors = server.embed(["a"], role="query", dimensions=128)
server.embed(["a"], roll="query")  # wrong: a misspelt keyword
server.submit_embedding(["a"], long_texts=1)  # wrong: a number for a word
"""
MYPY = """[mypy]
strict = True
[mypy-torch.*,numpy.*,faiss.*,transformers.*,tokenizers.*,numba.*,prometheus_client.*,fastapi.*]
follow_imports = skip
ignore_missing_imports = True
[mypy-heddle.*]
follow_imports = silent
[mypy-*]
ignore_missing_imports = True
"""


def test_everything_that_is_exported_is_there():
    assert len(set(heddle.__all__)) == len(heddle.__all__)
    for name in heddle.__all__:
        assert getattr(heddle, name) is not None
        assert name in dir(heddle)


def test_the_types_of_the_face_are_exported():
    """What a signature of an exported class names, a user can import."""
    known = {*heddle.__all__, "Mapping", "Sequence", "Callable", "Iterator", "AsyncIterator"}
    known |= {"Future", "Path", "Self", "Any", "Literal", "None", "Handle", "TracebackType"}
    for verb in (
        heddle.Server.submit,
        heddle.Server.embed,
        heddle.Server.search,
        heddle.Server.prime,
        heddle.Server.upsert,
    ):
        words = set(re.findall(r"\b[A-Z]\w+", signature_text(verb)))
        assert words - known <= {"Unpack"}, verb


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'heddle' has no attribute 'Servr'"):
        heddle.Servr  # noqa: B018


@pytest.mark.parametrize("of", SIGNATURES, ids=lambda of: of.__qualname__)
def test_signatures(of: object):
    assert signature_text(of) == SIGNATURES[of]


@pytest.mark.slow
def test_a_type_checker_sees_wrong_keywords_and_wrong_types(tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    settings = tmp_path / "mypy.ini"
    settings.write_text(MYPY, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", settings, program],
        cwd=tmp_path,
        env={"PATH": "", "MYPYPATH": str(ROOT), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    found = {int(line) for line in re.findall(r"program\.py:(\d+): error", done.stdout)}
    wanted = {
        number for number, line in enumerate(PROGRAM.splitlines(), start=1) if "# wrong" in line
    }
    assert found == wanted, done.stdout + done.stderr


def test_the_checked_options_have_every_keyword():
    checked = set(get_type_hints(CheckedRequest)) - {"writing", "caching", "wants_cache"}
    checked |= {"answer_cache", *get_type_hints(Writing)}
    assert checked == set(heddle.RequestOptions.__annotations__)
    embedding = set(get_type_hints(CheckedEmbedding)) - {"in_windows"} | {"long_texts"}
    assert embedding == set(heddle.EmbeddingOptions.__annotations__)


def test_options_of_a_request_are_checked():
    config = heddle.ServerConfig()
    asked = CheckedRequest.of({"priority": "bulk", "where": {"lang": "en"}}, config)
    assert (asked.priority, asked.where) == (heddle.Priority.BULK, (("lang", ("en",)),))
    assert (asked.tenant, asked.topk, asked.kv_reuse) == ("", None, config.kv_reuse)
    assert asked.optimizations is heddle.Optimizations.EXACT
    with pytest.raises(InputError, match="'top_k' is no option of a request: did you mean 'topk'"):
        CheckedRequest.of({"top_k": 3}, config)
    with pytest.raises(ConfigError, match="is more than this server allows"):
        CheckedRequest.of({"optimizations": "approx"}, config)
    with pytest.raises(ConfigError, match="gives approximate answers"):
        CheckedRequest.of({"kv_reuse": "epic"}, config)
    with pytest.raises(InputError, match=r"'roll' is no option .*did you mean 'role'"):
        CheckedEmbedding.of({"roll": "query"})


def test_what_the_pages_for_users_import_is_exported():
    docs = ROOT / "docs"
    pages = [ROOT / "README.md", *docs.glob("start/*.md"), *docs.glob("guide/*.md")]
    imported: set[str] = set()
    for page in pages:
        for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
            for names in re.findall(r"^from heddle import \(?([^)\n]*)", block, re.M):
                imported |= {name.strip() for name in names.split(",") if name.strip()}
            for module, names in re.findall(r"^from (heddle\.[\w.]+) import (.*)", block, re.M):
                assert module in OPEN_MODULES, f"{page.name} imports what is not exported"
                if module in ADAPTED and find_spec(ADAPTED[module]) is None:
                    continue
                found = vars(import_module(module))
                assert {name.strip() for name in names.split(",")} <= found.keys(), page.name
    assert imported
    assert imported <= set(heddle.__all__)
