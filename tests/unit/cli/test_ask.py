"""`heddle ask`: how the answer is to be written, alone and beside a running server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from heddle import ServerConfig
from heddle.cli import ask
from heddle.cli.main import main
from heddle.cli.running.advert import ServerAdvert
from heddle.cli.running.client import RunningServer
from heddle.core.passages import Passage
from heddle.core.tasks import Optimizations
from heddle.runtime.events import Answer, NodeStarted, RequestEvent, TokenDelta
from heddle.runtime.receipt import ReceiptDraft

RECEIPT = ReceiptDraft().close(Optimizations.EXACT, 0.5, "exact")
PASSAGE = Passage(7, "d", "Mill", "Built in 1911.", 0.25)
WROTE: tuple[RequestEvent, ...] = (
    NodeStarted("answer", 0),
    TokenDelta("answer", "In 1911."),
    Answer("In 1911.", (PASSAGE,), {}, RECEIPT),
)


@pytest.fixture
def prompt(tmp_path: Path) -> str:
    path = tmp_path / "prompt.txt"
    path.write_text("{docs}Q: {input}")
    return str(path)


class Running(RunningServer):
    """A server with a model, which answers without being there."""

    asked: list[dict]

    def ask(self, body: dict) -> Iterator[RequestEvent]:
        self.asked.append(body)
        yield from WROTE


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Running:
    advert = ServerAdvert.of(ServerConfig("reader", "corpus"), "127.0.0.1", 8321)
    assert advert is not None
    Running.asked = []
    server = Running(advert)
    monkeypatch.setattr(ask, "find_server", lambda config, chosen: server)
    return server


@pytest.mark.parametrize("flag", ["max_tokens", "temperature", "system", "prompt"])
@pytest.mark.parametrize("command", ["ask", "chat"])
def test_a_flag_is_refused_where_no_model_writes(command: str, flag: str, prompt: str, capsys):
    value = {"system": "Be brief.", "prompt": prompt}.get(flag, "1")
    question = ["When?"] if command == "ask" else []
    assert main([command, "corpus", *question, f"--{flag.replace('_', '-')}", value]) == 2
    refused = f"error: {flag}: no model writes the answer of workflow 'quote'"
    assert capsys.readouterr().err.startswith(refused)


def test_the_workflow_of_the_running_server_takes_them(running: Running, prompt: str, capsys):
    flags = ["--max-tokens", "9", "--system", "Be brief.", "--prompt", prompt]
    assert main(["ask", "corpus", "When?", *flags]) == 0
    out = capsys.readouterr().out
    assert out.startswith("In 1911.\n"), "as it is written"
    assert out.count("In 1911.") == 1
    [body] = running.asked
    sent = {name: body[name] for name in ("workflow", "max_tokens", "system", "prompt")}
    assert sent == {
        "workflow": None,
        "max_tokens": 9,
        "system": "Be brief.",
        "prompt": "{docs}Q: {input}",
    }


def test_what_the_environment_says_is_no_reason_to_refuse(monkeypatch, running: Running):
    monkeypatch.setenv("HEDDLE_MAX_TOKENS", "9")
    assert main(["ask", "corpus", "When?", "--workflow", "quote"]) == 0
    assert "max_tokens" not in running.asked[0]
