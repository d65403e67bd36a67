"""Retrieval while decoding, on real engines: the same tokens, new passages, reused KV."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from heddle import RAGraph, Server
from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.core.results import FinishReason
from heddle.core.tasks import Optimizations
from heddle.runtime.events import Answer, NodeFinished, Retrieved, TokenDelta
from tests.end_to_end.conftest import KV_BYTES
from tests.helpers.server_state import eventually, holds_nothing

QUESTION = "Who is the keeper of Rock 3?"
EVERYWHERE = 10  # chunks of the corpus
ELSEWHERE = "When was the lighthouse on Rock 8 built? {sentence}"
PROMPT = "Answer from the notes.\n\n{docs}Question: {query}"


def graph(topk: int = 2, **options: object) -> RAGraph:
    made = RAGraph("rounds").add_retrieval("find", topk=topk)
    return made.add_generation("answer", PROMPT, max_tokens=24, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        {"retrieve_every": 5},
        {"retrieve_every": 1, "retrievals_max": 30},
        {"retrieve_below": 0.9},
    ],
)
@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.9, "seed": 3}])
def test_where_nothing_is_new_the_tokens_are_those_of_one_decode(
    inline_server: Server, options: dict[str, object], sampling: dict[str, object]
):
    plain = inline_server.app(graph(EVERYWHERE, **sampling)).invoke(QUESTION)
    rounds = inline_server.app(graph(EVERYWHERE, **options, **sampling)).invoke(QUESTION)
    assert rounds.text == plain.text
    assert rounds.passages == plain.passages
    receipt = rounds.receipt
    assert receipt.generated_tokens == plain.receipt.generated_tokens == 24
    assert len(receipt.splices) > 3
    assert all(s.chunks_found == EVERYWHERE and not s.chunks_added for s in receipt.splices)


def test_optimizations_change_nothing(inline_server: Server):
    app = inline_server.app(graph(retrieve_every=6, query=ELSEWHERE))
    exact = app.invoke(QUESTION, tenant="rounds")
    plain = app.invoke(QUESTION, tenant="rounds", optimizations="off")
    assert exact.text == plain.text
    assert exact.passages == plain.passages
    assert len(exact.passages) > 2
    for fast, slow in zip(exact.receipt.splices, plain.receipt.splices, strict=True):
        assert slow.tokens_reused == 0
        assert fast.tokens_reused > 0
        assert fast.tokens_computed + fast.tokens_reused == slow.tokens_computed


def test_new_passages_are_streamed_shown_and_told_of(server: Server):
    events = list(server.app(graph(1, retrieve_every=6, query=ELSEWHERE)).stream(QUESTION))
    answer = events[-1]
    assert isinstance(answer, Answer)
    told = "".join(e.text for e in events if isinstance(e, TokenDelta))
    assert told.strip() == answer.text
    assert sum(isinstance(e, NodeFinished) and e.node == "answer" for e in events) == 1
    splices = answer.receipt.splices
    assert [s.at_token for s in splices] == [6, 12, 18]
    assert {s.reason for s in splices} == {FinishReason.INTERVAL}
    assert sum(isinstance(e, Retrieved) and e.node == "answer" for e in events) == 3
    assert len(answer.passages) > 1
    assert len(answer.passages) == 1 + sum(s.chunks_added for s in splices)
    assert len({p.chunk_id for p in answer.passages}) == len(answer.passages)


@pytest.mark.parametrize("tokens", [1, 7, 13])
def test_a_request_can_be_cancelled_at_any_moment(inline_server: Server, tokens: int):
    handle = inline_server.submit(graph(retrieve_every=3), QUESTION)
    seen = 0
    for event in handle:
        seen += isinstance(event, TokenDelta)
        if seen == tokens:
            handle.cancel_soon()
    eventually(lambda: holds_nothing(inline_server))


@pytest.fixture(
    scope="module",
    params=[
        KvReuse(ReusePolicy.FULL_REUSE, ratio=0.0, always=True),
        KvReuse(ReusePolicy.FUSIONRAG, ratio=0.15, always=True),
    ],
    ids=lambda reuse: reuse.policy.value,
)
def reusing_server(model: Path, corpus: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    """Prompts are put together from stored chunk KV."""
    reuse = request.param
    settings = {"engine_host": "inline", "dtype": "float32", "kv_cache_bytes": KV_BYTES}
    approx = {"optimizations": Optimizations.APPROX, "kv_reuse": reuse}
    with Server(model, corpus, **settings, **approx) as running:
        yield running


def test_stored_chunks_are_spliced_in_from_their_kv(reusing_server: Server):
    app = reusing_server.app(graph(1, retrieve_every=6, query=ELSEWHERE, fence=False))
    first, again = app.invoke(QUESTION), app.invoke(QUESTION)
    assert again.receipt.kv_reuse, "no prompt used stored KV"
    assert sum(s.chunks_added for s in again.receipt.splices) > 0
    assert all(s.tokens_reused > 0 for s in again.receipt.splices)
    if again.receipt.kv_reuse[0].policy != ReusePolicy.FULL_REUSE.value:
        return  # each round selects and computes its share anew, and these chunks are short
    for splice in again.receipt.splices:
        assert splice.tokens_reused > splice.tokens_computed
    computed = [sum(s.tokens_computed for s in a.receipt.splices) for a in (first, again)]
    assert computed[1] < computed[0]
