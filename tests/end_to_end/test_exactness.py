"""Optimisations never change an answer (fp32), and no tenant can observe another one's cache."""

from pathlib import Path

import pytest

from heddle import Server
from heddle.core.errors import ConfigError
from heddle.runtime.events import Answer
from heddle.workflow.presets import PRESETS
from tests.helpers.server_state import eventually, holds_nothing

QUESTIONS = ("Who is the keeper of Rock 3?", "When was the lighthouse on Rock 8 built?")


def shown(answer: Answer) -> tuple[str, list[int]]:
    return answer.text, [passage.chunk_id for passage in answer.passages]


@pytest.mark.parametrize("name", PRESETS)
def test_optimizations_change_neither_tokens_nor_documents(inline_server: Server, name: str):
    app = inline_server.app(name)
    for question in QUESTIONS:
        plain = app.invoke(question, optimizations="off", tenant=f"off-{name}")
        fast = app.invoke(question, optimizations="exact", tenant=f"exact-{name}")
        assert shown(plain) == shown(fast)
        assert plain.slots == fast.slots
        assert plain.receipt.prompt_tokens_reused == 0
        assert plain.receipt.passes == ()
    again = app.invoke(question, optimizations="exact", tenant=f"exact-{name}")
    assert shown(plain) == shown(again)
    assert again.receipt.prompt_tokens_reused > 0 or name == "quote"  # which has no prompt


def test_the_host_makes_no_difference(inline_server: Server, server: Server):
    for question in QUESTIONS:
        inline = inline_server.app("oneshot").invoke(question)
        assert shown(inline) == shown(server.app("oneshot").invoke(question))


def test_tenants_share_no_prefix_cache(inline_server: Server):
    app = inline_server.app("oneshot")
    reused = [
        app.invoke(QUESTIONS[0], tenant=tenant).receipt.prompt_tokens_reused
        for tenant in ("ann", "ann", "bo", "bo")
    ]
    assert reused[0] == reused[2] == 0
    assert reused[1] == reused[3] > 0


def test_more_than_the_server_allows_is_refused(inline_server: Server):
    with pytest.raises(ConfigError, match="optimizations='approx' is more"):
        inline_server.submit("oneshot", QUESTIONS[0], optimizations="approx")
    with pytest.raises(ConfigError, match="optimizations must be one of off, exact, approx"):
        inline_server.submit("oneshot", QUESTIONS[0], optimizations="fast")


def test_many_at_once_leave_nothing_behind(inline_server: Server):
    handles = [inline_server.submit(name, q) for name in PRESETS for q in QUESTIONS]
    for handle in handles[::3]:
        handle.cancel_soon()
    for index, handle in enumerate(handles):
        if index % 3:
            assert handle.result(timeout_s=60).text
    eventually(lambda: holds_nothing(inline_server))


@pytest.mark.numerics
def test_a_search_that_speculates_changes_no_answer(
    model: Path, corpus: Path, inline_server: Server
):
    settings = {"engine_host": "inline", "dtype": "float32", "kv_cache_bytes": 32 << 20}
    with Server(model, corpus, speculate="always", **settings) as server:
        for question in QUESTIONS:
            answer = server.app("oneshot").invoke(question)
            assert shown(answer) == shown(inline_server.app("oneshot").invoke(question))
            assert answer.receipt.degradations == ()
