"""What commands print: passages, receipts, progress, and the files they keep."""

import json
from pathlib import Path

import pytest

from heddle.cli.ask import SNIPPET_CHARS, _show, passage_line, receipt_lines
from heddle.cli.cache import cache_directory, cache_root, read_json, write_json
from heddle.cli.progress import ProgressLines
from heddle.core.errors import EngineError
from heddle.core.passages import Passage
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Optimizations
from heddle.runtime.events import Answer, RequestFailed, Retrieved, TokenDelta
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


def test_only_the_answering_node_is_heard(capsys):
    _show(TokenDelta("imagine", "draft"), {"answer"}, False)
    _show(TokenDelta("answer", "Ada"), {"answer"}, False)
    _show(Retrieved("find", (PASSAGE,)), {"answer"}, False)
    _show(Answer("Ada", (PASSAGE,), {}, RECEIPT), {"answer"}, True)
    out, err = capsys.readouterr()
    assert out.startswith("Ada\n\n  0.500  Title:")
    assert "receipt: " in out
    assert err == "[find: 1 passages]\n"
    with pytest.raises(EngineError):
        _show(RequestFailed(EngineError("x", engine="e", request_ids=(1,))), {"answer"}, False)


def test_progress_as_lines_is_brief(capsys):
    with ProgressLines() as progress:
        for done in range(1001):
            progress.update("embedding", done, 1000)
        progress.say("[done] x")
    err = capsys.readouterr().err.splitlines()
    assert err[0] == "embedding: 0/1000"
    assert err[-2:] == ["embedding: 1000/1000", "[done] x"]
    assert len(err) < 15


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
