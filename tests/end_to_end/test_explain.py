"""`heddle explain --analyze` on real engines: every region, its times, and two files."""

import json
from pathlib import Path

import pytest

from heddle.cli.main import main

MINE = """
from heddle import END, START, RAGraph, as_workflow

@as_workflow
async def careful(rag, query):
    docs = await rag.retrieve(query, topk=1, name="docs")
    text = await rag.generate(f"{docs}{query}", name="first", max_tokens=4)
    if len(text) > 10_000:
        return text
    return await rag.generate(f"{text}{query}", name="second", max_tokens=4)

twice = RAGraph("twice")
twice.add_retrieval("find", topk=1, output="docs")
twice.add_generation("write", "{docs}{query}{answer}", output="answer", max_tokens=4)
twice.add_edge(START, "find").add_edge("find", "write")
twice.add_edge("write", lambda state: "find" if state["turn"] < 2 else END, targets=["find"])
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "mine.py"
    file.write_text(MINE, encoding="utf-8")
    return file


def explain(workflow: str, model: Path, corpus: Path, *more: str) -> int:
    settings = ("--dtype", "float32", "--engine-host", "inline", "--kv-cache-bytes", str(32 << 20))
    on = ("--analyze", str(corpus), "--model", str(model), "--runs", "2")
    return main(["explain", workflow, *on, *settings, *more])


def test_a_loop(mine: Path, model: Path, corpus: Path, capsys, tmp_path: Path):
    page, trace = tmp_path / "page.html", tmp_path / "trace.json"
    files = ("--html", str(page), "--perfetto", str(trace))
    assert explain(f"{mine}:twice", model, corpus, *files) == 0
    said = capsys.readouterr().out
    assert "workflow 'twice': 2 regions" in said
    stages = [f"{kind}@{turn}" for turn in (0, 1) for kind in ("embedding", "searching")]
    table = said.partition("measured, medians of 2 runs")[2].partition("critical path")[0]
    assert all(f"find.{stage} " in table for stage in stages)
    assert all(
        f"write.{kind}@{turn} " in table for turn in (0, 1) for kind in ("prefilling", "decoding")
    )
    path = said.partition("critical path")[2]
    assert path.index("find.embedding@0") < path.index("write.decoding@0")
    assert path.index("write.decoding@0") < path.index("find.embedding@1")
    assert "two or more worked at once" in said
    assert "longest way: not measured" not in said
    # The second run's engines had cost models from the first.
    decode = next(line for line in table.splitlines() if "write.decoding@0" in line)
    assert "not measured" not in decode
    assert "split_substages: " in said
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") >= 3
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    names = {event["name"] for event in events}
    assert {"step", "request", "write.decoding@1"} <= names


def test_a_function_shows_the_parts_that_it_made(mine: Path, model: Path, corpus: Path, capsys):
    assert explain(f"{mine}:careful", model, corpus) == 0
    said = capsys.readouterr().out
    assert "workflow 'careful': 2 parts" in said
    parts = said.partition("part 1 of 2")[2].partition("part 2 of 2")
    assert "docs.searching@0" in parts[0]
    assert "first.decoding@0" in parts[0]
    assert "second.prefilling@0" in parts[2].partition("scheduling cycle")[0]
    barriers = said.partition("no pass saw its later calls before:\n")[2]
    assert barriers.startswith("  line 8 waited for 'first'")


def test_a_workflow_that_writes_needs_a_model_that_does(mine: Path, corpus: Path, capsys):
    assert main(["explain", f"{mine}:twice", "--analyze", str(corpus)]) == 2
    said = capsys.readouterr().err
    assert "node 'write' of workflow 'twice' needs prefilling" in said
    assert "--model reader" in said


def test_a_missing_corpus_is_named(mine: Path, model: Path, capsys, tmp_path: Path):
    assert explain(f"{mine}:twice", model, tmp_path / "gone") == 2
    assert "gone" in capsys.readouterr().err
