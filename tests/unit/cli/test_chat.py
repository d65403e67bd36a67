"""`heddle chat` without a terminal: questions come in as lines."""

import io
from collections.abc import Iterator

import pytest

from heddle import ServerConfig
from heddle.cli import chat
from heddle.cli.main import main
from heddle.cli.running.advert import ServerAdvert
from heddle.cli.running.client import RunningServer
from heddle.core.errors import InputError
from heddle.core.passages import Passage
from heddle.core.quotations import Quotation
from heddle.core.tasks import Optimizations
from heddle.runtime.events import Answer, RequestEvent, RequestFailed
from heddle.runtime.receipt import ReceiptDraft

RECEIPT = ReceiptDraft().close(Optimizations.EXACT, 0.5, "exact")
QUOTE = Quotation("1911", "Built in 1911.", Passage(1, "d", "t", "Built in 1911."), 9, 13, 0, 3.0)


class FakeServer:
    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, object]]] = []

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def app(self, workflow: object):
        return self

    def stream(self, question: str, **how: object) -> Iterator[RequestEvent]:
        self.asked.append((question, how))
        if question.startswith("stop?"):
            raise KeyboardInterrupt
        if question.startswith("bad?"):
            yield RequestFailed(InputError("the question is bad"))
        else:
            quotes = (QUOTE,) if "mill" in question else ()
            yield Answer("1911" if quotes else "none", (), {}, RECEIPT, quotes, (QUOTE,))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    found = FakeServer()
    monkeypatch.setattr(chat, "start_server", lambda config: found)
    return found


def test_lines_are_answered_until_they_end(server, monkeypatch, capsys):
    said = (
        "When was the mill built?\n\nAnd why?\nbad?\nstop?\n/help\n/new\nAnd why?\n/quit\nnever?\n"
    )
    monkeypatch.setattr("sys.stdin", io.StringIO(said))
    assert main(["chat", "corpus", "--topk", "3"]) == 0
    asked = [question for question, _ in server.asked]
    assert asked == [
        "When was the mill built?",
        "And why? (mill built)",
        "bad? (mill built)",
        "stop? (mill built)",
        "And why?",
    ]
    assert server.asked[0][1] == {"topk": 3, "where": {}, "tenant": ""}
    out, err = capsys.readouterr()
    assert out.count("1911\n") == 2
    assert "error: the question is bad" in err
    assert "error: there is no /help; /new forgets" in err
    assert "(cancelled)" in err


def test_a_line_that_is_no_text_costs_its_own_answer(server, monkeypatch):
    said = io.BytesIO("Où est le café?\n".encode("latin-1") + b"When was the mill built?\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(said, encoding="utf-8"))
    assert main(["chat", "corpus"]) == 0
    asked = [question for question, _ in server.asked]
    assert asked[0] == "O\udcf9 est le caf\udce9?", "which a server refuses"
    assert "When was the mill built?" in asked


def test_a_bad_setting_is_refused_before_anything_starts(capsys):
    assert main(["chat", "corpus", "--workflow", "twoshot"]) == 2
    assert "twoshot" in capsys.readouterr().err


def test_a_running_server_whose_model_writes_is_left_with_a_reason(server, monkeypatch, caplog):
    advert = ServerAdvert.of(ServerConfig("reader", "corpus"), "127.0.0.1", 8321)
    monkeypatch.setattr(chat, "find_server", lambda config, chosen: RunningServer(advert))
    monkeypatch.setattr("sys.stdin", io.StringIO("When was the mill built?\n"))
    assert main(["chat", "corpus"]) == 0
    assert [question for question, _ in server.asked] == ["When was the mill built?"]
    assert "the running server isn't asked, and one is started: it answers with reader" in (
        caplog.text
    )
