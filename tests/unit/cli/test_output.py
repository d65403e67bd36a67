"""What commands print: passages, receipts, progress, and the files they keep."""

import json
from pathlib import Path

import pytest

from heddle.cli.ask import SNIPPET_CHARS, Printer, passage_line, receipt_lines
from heddle.cli.cache import cache_directory, cache_root, read_json, write_json
from heddle.cli.progress import ProgressLines, status
from heddle.core.errors import EngineError
from heddle.core.passages import Passage
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Optimizations
from heddle.runtime.events import (
    Answer,
    NodeFinished,
    NodeStarted,
    RequestEvent,
    RequestFailed,
    Retrieved,
    TokenDelta,
)
from heddle.runtime.receipt import ReceiptDraft, Span

PASSAGE = Passage(1, "a", "Title", "One\n\n  two " + "x" * 200, 0.5)
RECEIPT = ReceiptDraft(
    fallbacks=["retried"],
    spans=[Span("answer.decode@0", "answer", PrimitiveKind.DECODING, "llm", 0.1, 0.3, 0.7)],
).close(Optimizations.EXACT, 1.5, "batch-dependent")


def test_a_passage_is_one_line():
    line = passage_line(PASSAGE)
    assert line.startswith("  0.500  Title: One two xxx")
    assert len(line) == len("  0.500  Title: ") + SNIPPET_CHARS
    assert line.endswith("…")


def test_a_receipt_tells_times_and_fallbacks():
    text = "\n".join(receipt_lines(RECEIPT))
    assert "receipt: 1.50 s, optimizations exact, passes none" in text
    assert "fallback: retried" in text
    assert "waited  0.200 s, ran  0.400 s" in text


def printed(capsys, *events: RequestEvent, with_receipt: bool = False) -> tuple[str, str]:
    printer = Printer(frozenset({"answer", "sum up"}), with_receipt)
    for event in events:
        printer.take(event)
    return capsys.readouterr()


def test_only_the_answering_node_is_heard(capsys):
    out, err = printed(
        capsys,
        NodeStarted("imagine", 0),
        TokenDelta("imagine", "draft"),
        Retrieved("find", (PASSAGE,)),
        NodeStarted("answer", 0),
        TokenDelta("answer", "A"),
        TokenDelta("answer", "da"),
        NodeFinished("answer", 0),
        Answer("Ada", (PASSAGE,), {}, RECEIPT),
        with_receipt=True,
    )
    assert out.startswith("Ada\n\npassages, with their distance")
    assert "\n  0.500  Title:" in out
    assert "receipt: " in out
    assert err == "[find: 1 passages]\n"


def test_the_turns_of_a_loop_stand_on_lines_of_their_own(capsys):
    turns = [
        event
        for turn, text in enumerate(("Ada", "Bo"))
        for event in (
            NodeStarted("answer", turn),
            TokenDelta("answer", f"{text} "),
            NodeFinished("answer", turn),
        )
    ]
    out, err = printed(capsys, *turns, Answer("Bo", (), {}, RECEIPT))
    assert out == "Ada \nBo \n"  # and the last one once, though an answer is stripped
    assert err == "[answer, turn 2]\n"


def test_two_nodes_that_write_at_once_are_not_mixed(capsys):
    out, _ = printed(
        capsys,
        NodeStarted("answer", 0),
        NodeStarted("sum up", 0),
        TokenDelta("answer", "A"),
        TokenDelta("sum up", "In short: "),
        TokenDelta("answer", "da"),
        NodeFinished("answer", 0),
        TokenDelta("sum up", "Ada."),
        NodeFinished("sum up", 0),
        Answer("In short: Ada.", (), {}, RECEIPT),
    )
    assert out == "Ada\nIn short: Ada.\n"


def test_an_answer_that_nothing_streamed_is_printed(capsys):
    assert printed(capsys, Answer("Ada", (), {}, RECEIPT)) == ("Ada\n", "")
    assert printed(capsys, Answer("", (), {}, RECEIPT))[1] == "(the model wrote nothing)\n"


def test_what_ended_a_request_is_raised(capsys):
    with pytest.raises(EngineError):
        printed(capsys, RequestFailed(EngineError("x", engine="e", request_ids=(1,))))


def test_progress_as_lines_is_brief(capsys):
    with ProgressLines() as progress:
        for done in range(1001):
            progress.update("embedding", done, 1000)
        progress.say("[done] " + "x" * 200)
    err = capsys.readouterr().err.splitlines()
    assert err[0] == "embedding: 0/1000"
    assert err[-2:] == ["embedding: 1000/1000", "[done] " + "x" * 200]  # never cut
    assert len(err) < 15


def test_a_status_is_for_terminals_only(capsys):
    with status("loading"):
        pass
    assert capsys.readouterr() == ("", "")


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("HEDDLE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "heddle"
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path / "mine"))
    assert cache_directory("a", "b") == tmp_path / "mine" / "a" / "b"
    assert (tmp_path / "mine" / "a" / "b").is_dir()


def test_a_torn_file_is_none(tmp_path: Path):
    path = tmp_path / "x.json"
    assert read_json(path) is None
    write_json(path, {"é": 1})
    assert read_json(path) == {"é": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]
    path.write_text(json.dumps({"a": 1})[:-1])
    assert read_json(path) is None
