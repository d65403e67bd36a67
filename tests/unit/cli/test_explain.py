from pathlib import Path
from types import SimpleNamespace

import pytest

from heddle.app.models.remote_models import NO_REMOTE_MODELS
from heddle.app.server_config import ServerConfig
from heddle.cli.main import main
from heddle.core.primitives import PrimitiveKind as Kind
from heddle.core.tasks import Optimizations
from heddle.engines.vector.files.manifest import IndexManifest
from heddle.runtime.events import Answer
from heddle.runtime.receipt import ReceiptDraft, Span
from heddle.workflow.presets import PRESETS


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("name", PRESETS)
def test_every_ready_made_workflow(name: str, capsys):
    assert main(["explain", name]) == 0
    said = capsys.readouterr().out
    assert f"workflow {name!r} as lowered:" in said
    assert "after prune_dependencies" in said
    assert "on every scheduling cycle: split_substages" in said
    assert "no predicted times yet" in said


def test_what_another_servers_model_cannot_do_is_told(capsys):
    assert main(["explain", "oneshot", "--model", "http://127.0.0.1:9/v1"]) == 0
    assert "Heddle leaves out reuse of chunk KV" in capsys.readouterr().out
    main(["explain", "oneshot"])
    assert "leaves out" not in capsys.readouterr().out


def test_mermaid(capsys):
    assert main(["explain", "oneshot", "--mermaid"]) == 0
    assert "flowchart LR" in capsys.readouterr().out


def test_a_loop_is_told(capsys):
    main(["explain", "irg"])
    assert "a callable edge chooses among retrieve or END" in capsys.readouterr().out


def test_rounds_are_shown(capsys, tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from heddle import RAGraph\n"
        "flow = RAGraph('mine').add_retrieval('find')\n"
        "flow.add_generation('write', '{docs}{query}', retrieve_below=0.25, retrievals_max=3)\n"
    )
    assert main(["explain", f"{file}:flow"]) == 0
    said = capsys.readouterr().out
    assert "write.rounds@0  depth 0  <- write.decoding@0 (data)" in said
    assert (
        "node 'write' retrieves before a token of a probability under 0.25, at most 3 times; "
        "the first time it goes on with:\n"
        "write.embedding.1@0  depth 5\n"
        "write.searching.1@0  depth 4  <- write.embedding.1@0 (data)\n"
        "write.aggregate.1@0  depth 3  <- write.searching.1@0 (data)\n"
        "write.prefilling.1@0  depth 2  <- write.aggregate.1@0 (data)\n"
        "write.decoding.1@0  depth 1  <- write.prefilling.1@0 (data)\n"
    ) in said
    main(["explain", f"{file}:flow", "--mermaid"])
    assert capsys.readouterr().out.count("flowchart LR") == 3


@pytest.mark.parametrize("name", ["every_16", "in_doubt"])
def test_the_example_of_the_documentation(capsys, tmp_path: Path, name: str):
    text = (Path(__file__).parents[3] / "docs/retrieval-while-decoding.md").read_text()
    file = tmp_path / "mine.py"
    file.write_text(text.split("```python\n")[1].split("```")[0])
    assert main(["explain", f"{file}:{name}"]) == 0
    assert "the first time it goes on with" in capsys.readouterr().out


def test_times_that_were_measured_before(capsys, cache: Path):
    cache.mkdir()
    (cache / "profile.json").write_text('{"embedding": 0.5, "decoding": 2.0}')
    assert main(["explain", "oneshot"]) == 0
    said = capsys.readouterr().out
    assert "predicted critical path: 2.500 s" in said
    assert "predicted from the times of the last run with --analyze" in said


def test_analyze_measures_and_remembers(capsys, monkeypatch: pytest.MonkeyPatch):
    spans = [
        Span("retrieve.embedding@0", "retrieve", Kind.EMBEDDING, "embedding", 0.0, 0.0, 0.5),
        Span("retrieve.searching@0", "retrieve", Kind.SEARCHING, "vector", 0.5, 0.5, 1.0),
        Span("answer.prefilling@0", "answer", Kind.PREFILLING, "llm", 1.0, 1.0, 3.0),
        Span("answer.decoding@0", "answer", Kind.DECODING, "llm", 1.0, 1.0, 4.0),
    ]
    receipt = ReceiptDraft(spans=spans).close(Optimizations.EXACT, 4.25, "exact")
    started = []

    def start(config: ServerConfig) -> MeasuredServer:
        started.append(config)
        return MeasuredServer(Answer("x", (), {}, receipt))

    monkeypatch.setattr("heddle.cli.start_server.Server.from_config", start)
    arguments = ("--analyze", "corpus", "--embedder", "e", "--model", "m", "--topk", "3")
    assert main(["explain", "oneshot", *arguments]) == 0
    (config,) = started
    assert (config.generator, config.index, config.embedder) == ("m", Path("corpus"), "e")
    said = capsys.readouterr().out
    assert "answer.decoding@0            1.0000 s" in said
    assert "the whole request            4.2500 s" in said
    assert "predicted critical path: 4.000 s" in said  # the prefill counts once
    main(["explain", "oneshot"])
    assert "predicted critical path: 4.000 s" in capsys.readouterr().out


@pytest.mark.parametrize(("count", "is_told"), [(46_000, True), (90_000_000, False)])
def test_a_recall_that_saves_nothing_here_is_told(
    count: int, is_told: bool, capsys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    receipt = ReceiptDraft().close(Optimizations.APPROX, 1.0, "exact")
    server = MeasuredServer(Answer("x", (), {}, receipt))
    monkeypatch.setattr("heddle.cli.start_server.Server.from_config", lambda config: server)
    manifest = IndexManifest("f", 1, "", 429, count, 384, "e", "pq", "auto", "r", "")
    (tmp_path / "index").mkdir()
    (tmp_path / "index/manifest.json").write_text(manifest.to_json())
    arguments = ("--analyze", str(tmp_path), "--embedder", "e", "--model", "m")
    assert main(["explain", "oneshot", *arguments, "--recall", "0.9"]) == 0
    said = capsys.readouterr().out
    assert ("recall 0.9: a promised recall saves nothing here" in said) is is_told
    assert main(["explain", "oneshot", *arguments]) == 0
    assert "saves nothing" not in capsys.readouterr().out


class MeasuredServer:
    """Answers everything with one answer; it is its own app."""

    plan = SimpleNamespace(remote=NO_REMOTE_MODELS)

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def app(self, workflow: object) -> "MeasuredServer":
        return self

    def invoke(self, question: str) -> Answer:
        return self.answer

    def __enter__(self) -> "MeasuredServer":
        return self

    def __exit__(self, *error: object) -> None:
        pass


def test_a_workflow_of_ones_own(capsys, tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text("from heddle import RAGraph\nflow = RAGraph('mine').add_retrieval('find')\n")
    assert main(["explain", f"{file}:flow"]) == 0
    assert "workflow 'mine' as lowered:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nope", "workflow 'nope' is unknown; there are quote, oneshot"),
        ("mine.py", "and FILE.py:NAME for a RAGraph of yours"),
        ("nope.py:flow", "there is no file 'nope.py'"),
        ("README.md:flow", "no Python file"),
    ],
)
def test_what_is_no_workflow(name: str, words: str, capsys, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("README.md").write_text("text")
    assert main(["explain", name]) == 2
    assert words in capsys.readouterr().err
