import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from heddle.app.models.remote_models import NO_REMOTE_MODELS
from heddle.app.server_config import ServerConfig
from heddle.cli.main import main
from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.frames import Frame
from heddle.core.primitives import PrimitiveKind as Kind
from heddle.core.tasks import Optimizations
from heddle.engines.vector.files.manifest import IndexManifest
from heddle.graph.pgraph import PGraph
from heddle.passes.runner import CYCLE_PASSES, GRAPH_PASSES, REQUESTED_PASSES, CycleCount
from heddle.runtime.events import Answer
from heddle.runtime.receipt import ReceiptDraft, Span
from heddle.runtime.step_trace import StepTrace
from heddle.workflow.presets import PRESETS
from heddle.workflow.workflow import Workflow
from tests.helpers.fake_ports import ManualClock


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("name", PRESETS)
def test_every_ready_made_workflow(name: str, capsys):
    assert main(["explain", name]) == 0
    said = capsys.readouterr().out
    assert f"workflow {name!r}: " in said
    assert "where a request begins\nas lowered (longest way: not measured):" in said
    for each in (*GRAPH_PASSES, *REQUESTED_PASSES):
        assert f"\npass {each.name}: " in said
    for each in CYCLE_PASSES:
        assert f"\n  {each.name}: it acts on the requests under way" in said
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
    said = capsys.readouterr().out
    assert "workflow 'irg': 2 regions" in said
    assert "region 2 of 2, where the edge after 'answer' chooses 'retrieve' again" in said
    assert "pass skip_repeats: gain not measured: 1 primitive changed (answer.prefilling@1)" in said


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
        "the first time it goes on with this\n"
        "as lowered (longest way: not measured):\n"
        "write.embedding.1@0  depth 5\n"
        "write.searching.1@0  depth 4  <- write.embedding.1@0 (data)\n"
        "write.aggregate.1@0  depth 3  <- write.searching.1@0 (data)\n"
        "write.prefilling.1@0  depth 2  <- write.aggregate.1@0 (data)\n"
        "write.decoding.1@0  depth 1  <- write.prefilling.1@0 (data)\n"
    ) in said
    main(["explain", f"{file}:flow", "--mermaid"])
    assert capsys.readouterr().out.count("flowchart LR") == 3  # one pass changes the first region


@pytest.mark.parametrize("name", ["every_16", "in_doubt"])
def test_the_example_of_the_documentation(capsys, tmp_path: Path, name: str):
    text = (Path(__file__).parents[3] / "docs/guide/retrieval-while-decoding.md").read_text()
    file = tmp_path / "mine.py"
    file.write_text(text.split("```python\n")[1].split("```")[0])
    assert main(["explain", f"{file}:{name}"]) == 0
    assert "the first time it goes on with" in capsys.readouterr().out


def test_times_that_were_measured_before(capsys, cache: Path):
    cache.mkdir()
    (cache / "profile.json").write_text(
        '{"embedding": 0.5, "searching": 0.0, "prefilling": 0.25, "decoding": 2.0}'
    )
    assert main(["explain", "oneshot"]) == 0
    said = capsys.readouterr().out
    assert "as lowered (longest way: 2.750 s):" in said
    assert "predicted from the times of the last run with --analyze" in said


@pytest.mark.parametrize("torn", ["[1]", '{"embedding": "long"}', "{"])
def test_a_torn_profile_counts_as_none(torn: str, capsys, cache: Path):
    cache.mkdir()
    (cache / "profile.json").write_text(torn)
    assert main(["explain", "oneshot"]) == 0
    assert "no predicted times yet" in capsys.readouterr().out


SPANS = [
    Span("retrieve.embedding@0", "retrieve", Kind.EMBEDDING, "embedding", 0.0, 0.0, 0.5),
    Span("retrieve.searching@0", "retrieve", Kind.SEARCHING, "vector", 0.5, 0.5, 1.0),
    Span("answer.prefilling@0", "answer", Kind.PREFILLING, "llm", 1.0, 1.0, 3.0),
    Span("answer.decoding@0", "answer", Kind.DECODING, "llm", 1.0, 1.0, 4.0),
]


class MeasuredServer:
    """Answers everything with one answer, after one step of the LLM; it is its own app."""

    plan = SimpleNamespace(remote=NO_REMOTE_MODELS)

    def __init__(self) -> None:
        receipt = ReceiptDraft(spans=list(SPANS)).close(Optimizations.EXACT, 4.25, "exact")
        self.answer = Answer("x", (), {}, receipt)
        self.trace, self.clock = StepTrace(), ManualClock()
        self.asked: list[Mapping[str, object]] = []

    def app(self, workflow: Workflow) -> "MeasuredServer":
        return self

    def invoke(self, inputs: Mapping[str, object], tenant: str) -> Answer:
        self.asked.append({**inputs, "tenant": tenant})
        costs = CostSnapshot("llm", 1, {"call": 2.5})
        step = Frame("llm", 1, 2.0, (), features={"call": 1.0}, costs=costs)
        self.clock.time_s += 5.0
        self.trace.step(step, self.clock.time_s - 2.0)
        return self.answer

    def lowered_regions(self, workflow: str) -> tuple[PGraph, ...]:
        return ()

    def state(self) -> SimpleNamespace:
        return SimpleNamespace(cycle_passes={"split_substages": CycleCount(8, 2, 0.5)})

    def __enter__(self) -> "MeasuredServer":
        return self

    def __exit__(self, *error: object) -> None:
        pass


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ServerConfig, MeasuredServer]]:
    known = []

    def start(config: ServerConfig) -> MeasuredServer:
        known.append((config, MeasuredServer()))
        return known[-1][1]

    monkeypatch.setattr("heddle.app.server.Server.from_config", start)
    return known


def test_analyze_measures_and_remembers(started, capsys):
    arguments = ("--analyze", "corpus", "--embedder", "e", "--model", "m", "--topk", "3")
    assert main(["explain", "oneshot", *arguments]) == 0
    ((config, server),) = started
    assert (config.generator, config.index, config.embedder) == ("m", Path("corpus"), "e")
    assert [asked["tenant"] for asked in server.asked] == [f"heddle-explain-{n}" for n in range(3)]
    assert server.trace.log is None
    said = capsys.readouterr().out
    rows = {line.split()[0]: line.split()[1:] for line in said.splitlines() if "%" in line}
    # The LLM made one step, for the prompt; in the first run it had no cost model yet.
    assert " ".join(rows["answer.prefilling@0"]) == "llm 0.000 ms 2.000 s 47% 2.000 s 2.500 s"
    assert " ".join(rows["answer.decoding@0"]) == (
        "llm 0.000 ms 1.000 s 24% not measured not measured"
    )
    assert "the whole request" in said
    assert "as lowered (longest way: 4.000 s)" in said  # the prefill counts once
    assert "split_substages: it acted in 2 of 8 cycles, predicted gains 500.000 ms in all" in said
    assert "speculate_prefill: no cycle has asked it" in said
    main(["explain", "oneshot"])
    assert "(longest way: 4.000 s)" in capsys.readouterr().out


def test_the_question_inputs_and_number_of_runs_are_the_user_s(started, tmp_path: Path):
    asked = ("--question", "Who?", "--input", "tone=kind", "--runs", "2")
    assert main(["explain", "oneshot", "--analyze", "corpus", *asked]) == 0
    (_, server) = started[0]
    assert [(a["query"], a["tone"]) for a in server.asked] == [("Who?", "kind")] * 2


def test_files_are_written_and_can_be_read(started, tmp_path: Path):
    page, trace = tmp_path / "new" / "page.html", tmp_path / "trace.json"
    files = ("--html", str(page), "--perfetto", str(trace))
    assert main(["explain", "oneshot", "--analyze", "corpus", *files]) == 0
    assert "<h2>Timeline of the middle run</h2>" in page.read_text(encoding="utf-8")
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    assert sum(event["name"] == "request" for event in events) == 3


def test_a_page_needs_no_run(tmp_path: Path):
    page = tmp_path / "page.html"
    assert main(["explain", "irg", "--html", str(page)]) == 0
    assert "Region 2" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--perfetto", "t.json"], "--perfetto needs a corpus to run the workflow on"),
        (["--runs", "5"], "--runs needs a corpus to run the workflow on: add --analyze DIR"),
        (["--runs", "0", "--analyze", "corpus"], "--runs must be from 1 to 100, got 0"),
        (["--runs", "101", "--analyze", "corpus"], "--runs must be from 1 to 100, got 101"),
        (["--analyze", "missing"], "missing"),
    ],
)
def test_what_cannot_be_run(arguments, words: str, capsys, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["explain", "oneshot", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--html", "--perfetto"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(
    flag: str, capsys, tmp_path: Path
):
    with pytest.raises(SystemExit) as refused:
        main(["explain", "oneshot", flag, str(tmp_path)])
    assert refused.value.code == 2
    assert f"argument {flag}" in (said := capsys.readouterr().err)
    assert "is a folder; name a file in it" in said


def test_what_the_settings_leave_out_is_told(capsys):
    assert main(["explain", "oneshot", "--disabled-passes", "skip_repeats"]) == 0
    said = capsys.readouterr().out
    assert "pass skip_repeats: no change: left out by disabled_passes" in said
    assert main(["explain", "oneshot", "--optimizations", "off"]) == 0
    assert "optimizations is off: no pass runs." in capsys.readouterr().out


def test_a_function_says_how_its_parts_can_be_seen(capsys, tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from heddle import as_workflow\n"
        "@as_workflow\n"
        "async def flow(rag, query):\n"
        "    return await rag.generate(f'{query}')\n"
    )
    assert main(["explain", f"{file}:flow"]) == 0
    said = capsys.readouterr().out
    assert "workflow 'flow': 0 parts" in said
    assert "run it with --analyze DIR to see its parts" in said


def test_a_workflow_of_ones_own(capsys, tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text("from heddle import RAGraph\nflow = RAGraph('mine').add_retrieval('find')\n")
    assert main(["explain", f"{file}:flow"]) == 0
    assert "workflow 'mine': 1 region" in capsys.readouterr().out


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


@pytest.mark.parametrize(("count", "is_told"), [(46_000, True), (90_000_000, False)])
def test_a_recall_that_saves_nothing_here_is_told(
    count: int, is_told: bool, started: object, capsys, tmp_path: Path
):
    manifest = IndexManifest("f", 1, "", 429, count, 384, "e", "pq", "auto", "r", "")
    (tmp_path / "index").mkdir()
    (tmp_path / "index/manifest.json").write_text(manifest.to_json())
    arguments = ("--analyze", str(tmp_path), "--embedder", "e", "--model", "m")
    assert main(["explain", "oneshot", *arguments, "--recall", "0.9"]) == 0
    said = capsys.readouterr().out
    assert ("recall 0.9: a promised recall saves nothing here" in said) is is_told
    assert main(["explain", "oneshot", *arguments]) == 0
    assert "saves nothing" not in capsys.readouterr().out
