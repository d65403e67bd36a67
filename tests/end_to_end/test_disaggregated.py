"""Prompts computed on one lane and answered on another: the same answers, whatever is lost."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from heddle import RAGraph, Server
from heddle.core.gauges import KV_PAGES_HELD
from heddle.core.tasks import Optimizations
from heddle.engines.llm.lanes.disaggregated_port import DisaggregatedPort
from heddle.runtime.events import Answer
from tests.end_to_end.conftest import KV_BYTES
from tests.helpers.degraded import kinds, reasons
from tests.helpers.server_state import eventually, holds_nothing

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


def port_of(server: Server) -> DisaggregatedPort:
    port = server._running.loop.runtime.lanes["llm"].port
    assert isinstance(port, DisaggregatedPort)
    return port


def is_idle(server: Server) -> bool:
    """Whether nothing is out, and the lanes hold no page for anybody."""
    port = port_of(server)
    is_known = port._tasks or port._prompts or port._decodes
    held = sum(frame.gauges.get(KV_PAGES_HELD, 0) for frame in port._last.values())
    return holds_nothing(server) and not is_known and not held


def pid_of(server: Server, name: str) -> int:
    pid = next(lane for lane in server._running.lanes if lane.name == name).health.pid
    assert pid is not None
    return pid


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


def test_the_vector_pool_hears_how_long_lanes_send(inline_lanes: Server):
    engine = inline_lanes._running.loop.runtime.lanes["vector"].port._guarded.engine
    link = engine._kv_link
    before = link._sent_s  # this policy never looks, so it adds up
    receipt = inline_lanes.app("oneshot").invoke(QUESTION).receipt
    assert link.lanes == 1
    assert before < link._sent_s <= before + receipt.kv_transfer_s
    assert link._stepped_s > link._sent_s, "the lane computes more than it sends"
    assert link.take_use(0.0) == 1.0, "no time has passed"
    assert 0.0 < link.take_use(1e3) < 0.5, "a lane that rested for a quarter of an hour"


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
    os.kill(pid, signal.SIGSTOP)  # whatever it is sent now waits in its socket
    handle = lanes.submit("oneshot", QUESTION)
    decodes, number = port_of(lanes)._decodes, [PREFILL, DECODE].index(name)
    eventually(lambda: any(decode.lane == number for decode in list(decodes.values())))
    with contextlib.suppress(ProcessLookupError):  # where it took long, it counts as dead already
        os.kill(pid, signal.SIGKILL)
    answer = handle.result(timeout_s=120)
    assert shown(answer) == shown(expected)
    assert answer.receipt.retries == 1
    assert any("lane lost" in reason for reason in reasons(answer.receipt))
    eventually(lambda: is_idle(lanes))
    eventually(lambda: lanes.health()["ready"] is True)
