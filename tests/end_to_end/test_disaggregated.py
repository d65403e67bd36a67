"""Prompts computed on one lane and answered on another: the same answers, after lost lanes too."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from heddle import RAGraph, Server
from heddle.core.commands import KvSent
from heddle.core.gauges import KV_PAGES_HELD
from heddle.core.tasks import Optimizations
from heddle.engines.vector.pool.kv_link import KvLink
from heddle.runtime.events import Answer
from tests.end_to_end.conftest import KV_BYTES
from tests.helpers.degraded import kinds, reasons
from tests.helpers.server_state import eventually, holds_nothing, pid_of

QUESTION = "Who is the keeper of Rock 3?"
PREFILL, DECODE = "llm-prefill", "llm-decode"
SETTINGS = {"dtype": "float32", "kv_cache_bytes": KV_BYTES, "llm_lanes": "prefill,decode"}


@pytest.fixture(scope="module")
def lanes(model: Path, corpus: Path) -> Iterator[Server]:
    with Server(model, corpus, search_pool="adaptive", **SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def inline_lanes(model: Path, corpus: Path) -> Iterator[Server]:
    with Server(model, corpus, engine_host="inline", search_pool="fifo", **SETTINGS) as running:
        yield running


def is_idle(server: Server) -> bool:
    """Whether nothing is out, and the lanes hold no page for anybody."""
    llm = server.state().engines["llm"]
    held = 0 if llm.last is None else llm.last.gauges.get(KV_PAGES_HELD, 0)
    return holds_nothing(server) and not any(llm.tasks_by_lane.values()) and not held


def shown(answer: Answer) -> tuple[str, list[int]]:
    return answer.text, [passage.chunk_id for passage in answer.passages]


def talker(max_tokens: int) -> RAGraph:
    return RAGraph("talker").add_generation("talk", "Tell of {query}.", max_tokens=max_tokens)


def rounds() -> RAGraph:
    graph = RAGraph("rounds").add_retrieval("find", topk=2)
    return graph.add_generation(
        "answer",
        "Answer from the notes.\n\n{docs}Question: {query}",
        max_tokens=24,
        retrieve_every=6,
        query="When was the lighthouse on Rock 8 built? {sentence}",
    )


@pytest.mark.numerics
def test_two_processes_answer_as_one_engine(lanes: Server, inline_server: Server):
    for name in ("oneshot", "hyde"):
        together = lanes.app(name).batch([QUESTION] * 3)
        alone = inline_server.app(name).invoke(QUESTION)
        assert [shown(answer) for answer in together] == [shown(alone)] * 3
        receipt = together[-1].receipt
        assert receipt.kv_transfers == (2 if name == "hyde" else 1)
        assert receipt.kv_transfer_bytes > 0
        assert receipt.kv_transfer_s > 0
        assert not receipt.degradations
    again = lanes.app("oneshot").invoke(QUESTION).receipt
    assert again.prompt_tokens_reused > 0, "the prefill lane keeps its prefix cache"
    assert lanes.state().tally.counts.kv_transfers >= 10
    eventually(lambda: is_idle(lanes))


@pytest.mark.parametrize("options", [{}, {"tenant": "ann"}, {"optimizations": "off"}])
def test_retrieval_while_decoding_goes_back_to_the_prefill_lane(
    inline_lanes: Server, inline_server: Server, options: dict[str, str]
):
    moved = inline_lanes.app(rounds()).invoke(QUESTION, **options)
    alone = inline_server.app(rounds()).invoke(QUESTION, **options)
    assert shown(moved) == shown(alone)
    assert moved.receipt.kv_transfers == 1 + len(moved.receipt.splices) > 2
    eventually(lambda: is_idle(inline_lanes))


def test_the_vector_pool_hears_how_long_lanes_send(
    inline_lanes: Server, monkeypatch: pytest.MonkeyPatch
):
    told: list[tuple[int, KvSent]] = []
    monkeypatch.setattr(KvLink, "sent", lambda link, sent: told.append((link.lanes, sent)))
    receipt = inline_lanes.app("oneshot").invoke(QUESTION).receipt
    [(count, sent)] = told
    assert count == 1
    assert 0.0 < sent.sending_s <= receipt.kv_transfer_s
    assert sent.stepping_s > sent.sending_s, "the lane computes more than it sends"


def test_reused_chunk_kv_moves_on_as_it_is(model: Path, corpus: Path):
    texts = []
    for llm_lanes in ("both", "prefill,decode"):
        settings = {
            **SETTINGS,
            "llm_lanes": llm_lanes,
            "engine_host": "inline",
            "kv_reuse_disk_bytes": 0,
        }
        reuse = {"optimizations": Optimizations.APPROX, "kv_reuse": "full_reuse,always"}
        with Server(model, corpus, **settings, **reuse) as server:
            app = server.app("oneshot")
            answers = [app.invoke(question) for question in (QUESTION, QUESTION + " Say it.")]
            texts.append([answer.text for answer in answers])
            fused = answers[1].receipt.kv_reuse[0]
            assert sum(fused.chunks.values()) > fused.chunks.get("miss", 0)
            assert "kv_transfer" not in kinds(answers[1].receipt)
    assert texts[0] == texts[1]


def test_a_cancelled_answer_leaves_no_page_on_either_lane(lanes: Server):
    handles = [lanes.submit(talker(1500), f"{QUESTION} {number}") for number in range(6)]
    for handle in handles:
        handle.cancel_soon()
    streaming = lanes.submit(talker(1500), QUESTION)
    for event in streaming:
        if type(event).__name__ == "TokenDelta":
            break
    streaming.cancel_soon()
    eventually(lambda: is_idle(lanes))


@pytest.mark.parametrize("name", [PREFILL, DECODE])
def test_a_lane_that_dies_with_a_prompt_on_its_way_costs_a_retry(lanes: Server, name: str):
    expected = lanes.app("oneshot").invoke(QUESTION)
    pid = pid_of(lanes, name)
    os.kill(pid, signal.SIGSTOP)  # commands sent from now on wait in its socket
    handle = lanes.submit("oneshot", QUESTION)
    tasks = 2 if name == PREFILL else 1  # the prompt's, too, or the answer's alone
    eventually(lambda: lanes.state().engines["llm"].tasks_by_lane[name] == tasks)
    with contextlib.suppress(ProcessLookupError):  # where it took long, it counts as dead already
        os.kill(pid, signal.SIGKILL)
    answer = handle.result(timeout_s=120)
    assert shown(answer) == shown(expected)
    assert answer.receipt.retries == 1
    assert any("lane lost" in reason for reason in reasons(answer.receipt))
    eventually(lambda: is_idle(lanes))
    eventually(lambda: lanes.health()["ready"] is True)
