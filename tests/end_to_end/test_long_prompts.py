"""A question beside long prompts, over a real server: it isn't held behind their tokenising."""

import threading
from collections.abc import Sequence

import pytest

from heddle import Server
from heddle.core.errors import InputError
from heddle.core.system_text import PromptPart
from heddle.engines.llm.text.prompt_tokenizer import PromptTokenizer
from heddle.runtime.long_prompts import LONG_CHARS
from tests.helpers.server_state import eventually, holds_nothing

LONG = "lighthouse keeper 1821. " * 1300  # longer than the model's context
PATIENCE_S = 60.0


@pytest.mark.parametrize("kind", ["server", "inline_server"])
def test_a_question_beside_long_prompts(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    server: Server = request.getfixturevalue(kind)
    begun, go_on = threading.Semaphore(0), threading.Event()
    measured = PromptTokenizer.check_length

    def slow(self: PromptTokenizer, parts: Sequence[PromptPart]) -> None:
        if any(isinstance(part, str) and len(part) > LONG_CHARS for part in parts):
            begun.release()
            assert go_on.wait(PATIENCE_S)
        measured(self, parts)

    monkeypatch.setattr(PromptTokenizer, "check_length", slow)
    long = [server.submit("oneshot", LONG) for _ in range(4)]
    try:
        assert begun.acquire(timeout=PATIENCE_S)
        short = server.submit("oneshot", "Who is the keeper of Rock 3?")
        assert short.result(timeout_s=PATIENCE_S).passages
    finally:
        go_on.set()
    for handle in long:
        with pytest.raises(InputError, match="shorten the question"):
            handle.result(timeout_s=PATIENCE_S)
    eventually(lambda: holds_nothing(server))
