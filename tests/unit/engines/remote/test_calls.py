"""Embeddings and rankings of other servers: right values, and one clear end for what goes wrong."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.app.models.remote_models import open_remote_models
from heddle.app.runtime_thread import RuntimeThread
from heddle.core.commands import Admit, Cancel
from heddle.core.errors import InputError
from heddle.core.frames import Cancelled, Done, Event, Failed, Frame
from heddle.core.payloads import EmbedPayload, ReadingText, RerankPayload, ToolPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Reranked, Vectors
from heddle.core.tasks import Identity, Priority, Task
from heddle.engines.remote import attempts, endpoint
from heddle.engines.remote.call_port import CallPort
from heddle.engines.remote.embedding import ROWS_EACH, digest, remote_embedder
from heddle.engines.remote.reranking import remote_reranker
from heddle.engines.remote.step_size import TOKENS_MIN
from heddle.runtime.clock import SystemClock
from tests.helpers.fake_endpoint import Asked, FakeEndpoint, Reply, Step, plain

WAIT_S = 20.0
DIMS = 32
QUERY = Identity(1, "retrieve")
BULK = Identity(1, "index", priority=Priority.BULK)
RANKED = RerankPayload(
    "Who keeps Rock 1?",
    (
        ReadingText("Weather", "It rains."),
        ReadingText("Rock 1", "Ada keeps Rock 1."),
        ReadingText("", "Rock 2 is far."),
    ),
)


class Calling:
    """A port under test."""

    def __init__(self, port: CallPort) -> None:
        self.port = port
        self.frames: list[Frame] = []
        self._arrived = threading.Condition()
        port.subscribe(self._on_frames)

    def _on_frames(self) -> None:
        with self._arrived:
            self.frames += self.port.frames()
            self._arrived.notify_all()

    def send(self, payload: object, identity: Identity = QUERY, seconds: float = 60.0) -> None:
        (kind,) = self.port.kinds
        self.port.send(Admit(Task(5, kind, identity, payload, seconds)))  # type: ignore[arg-type]

    def end(self) -> Event:
        with self._arrived:
            assert self._arrived.wait_for(lambda: bool(self.frames), WAIT_S)
        (event,) = self.frames[0].events
        return event

    def result(self, payload: object, identity: Identity = QUERY) -> object:
        self.send(payload, identity)
        end = self.end()
        assert isinstance(end, Done), end
        return end.result

    def failure(self, payload: object, seconds: float = 60.0) -> Failed:
        self.send(payload, seconds=seconds)
        end = self.end()
        assert isinstance(end, Failed), end
        assert end.is_final
        return end


Connect = Callable[[FakeEndpoint], Calling]


@pytest.fixture
def fake() -> Iterator[FakeEndpoint]:
    with FakeEndpoint(dims=DIMS, ranks=True) as running:
        yield running


@pytest.fixture
def thread() -> Iterator[RuntimeThread]:
    with ExitStack() as ending:
        thread = RuntimeThread("test-remote")
        ending.callback(thread.dispose)
        thread.start()
        ending.callback(thread.stop)
        yield thread


@pytest.fixture
def embedder(thread: RuntimeThread, fake: FakeEndpoint) -> Iterator[Calling]:
    model = open_remote_models(None, fake.url, None).embedder
    assert model is not None
    port = remote_embedder("embedding", model.endpoints(), SystemClock(), thread.event_loop)
    yield Calling(port)
    thread.call_last(port.close)


@pytest.fixture
def reranker(thread: RuntimeThread, fake: FakeEndpoint) -> Iterator[Calling]:
    model = open_remote_models(None, None, fake.url).reranker
    assert model is not None
    port = remote_reranker("reranking", model.endpoints(), SystemClock(), thread.event_loop)
    yield Calling(port)
    thread.call_last(port.close)


# -- embedding --------------------------------------------------------------------------------


def test_texts_get_normalised_vectors_in_their_order(embedder: Calling, fake: FakeEndpoint) -> None:
    texts = tuple(f"text number {n}" for n in range(2 * ROWS_EACH + 3))
    vectors = embedder.result(EmbedPayload(texts))
    assert isinstance(vectors, Vectors)
    assert vectors.values.shape == (len(texts), DIMS)
    assert vectors.values.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors.values, axis=1), 1.0, rtol=1e-5)
    sizes = [len(a.body["input"]) for a in fake.asked if a.path.endswith("/embeddings")][1:]
    assert sorted(sizes) == [3, ROWS_EACH, ROWS_EACH]
    alone = Vectors(vectors.values[:1])
    assert embedder.frames[0].features["tokens"] == vectors.tokens == 21
    assert embedder.frames[0].features["tokens_max"] == TOKENS_MIN  # so few say nothing
    assert embedder.frames[0].seconds > 0
    embedder.frames.clear()
    again = embedder.result(EmbedPayload(texts[:1]))
    assert isinstance(again, Vectors)
    np.testing.assert_array_equal(again.values, alone.values)


def vectors_of(*vectors: object) -> Reply:
    data = [{"index": n, "embedding": vector} for n, vector in enumerate(vectors)]
    return plain(200, {"data": data})


BROKEN = {
    "too few": (plain(200, {"data": []}), "no list of 1 vectors"),
    "no list": (plain(200, {"data": "x"}), "no list of 1 vectors"),
    "another length": (vectors_of([1.0] * 7), "vectors of 7 values where 32 are expected"),
    "words": (vectors_of(["a"] * DIMS), "can't be read"),
    "no numbers": (vectors_of([float("nan")] * DIMS), "without a direction"),
    "zeros": (vectors_of([0.0] * DIMS), "without a direction"),
    "nested": (vectors_of([[1.0]] * DIMS), "can't be read"),
    "no base64": (vectors_of("!!!"), "can't be read"),
    "odd base64": (vectors_of("QUJD"), "can't be read"),
    "nothing": (vectors_of(None), "can't be read"),
    "a number": (plain(200, {"data": [3]}), "can't be read"),
    "no JSON": (plain(200, "{oh no"), "no JSON"),
    "a page": (plain(200, "<html>", kind="text/html"), "web page"),
    "a refusal": (plain(400, {"error": {"message": "upstream words"}}), "refuses the request"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_vectors_that_cannot_be_used_have_one_clear_end(
    embedder: Calling, fake: FakeEndpoint, how: str
) -> None:
    fake.others["/embeddings"], words = BROKEN[how]
    failed = embedder.failure(EmbedPayload(("text",)))
    assert words in failed.message
    assert f"model 'fake-model': {fake.url}" in failed.message
    assert "upstream" not in failed.message
    assert failed.is_input == (how == "a refusal")


def test_indexing_outlasts_a_limit_of_requests(
    embedder: Calling, fake: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "PAUSE_S", 0.0)
    monkeypatch.setattr(endpoint, "BUSY_PAUSE_S", 0.001)
    left = [6]

    def busy_first(asked: Asked) -> Reply | None:
        left[0] -= 1
        return plain(429, "") if left[0] >= 0 else None

    fake.instead = busy_first
    assert isinstance(embedder.result(EmbedPayload(("text",)), BULK), Vectors)
    embedder.frames.clear()
    left[0] = 6
    assert "too busy (429); 3 tries" in embedder.failure(EmbedPayload(("text",))).message


def test_cancelling_an_embedding_hangs_up(embedder: Calling, fake: FakeEndpoint) -> None:
    fake.others["/embeddings"] = (Step.HANG,)
    embedder.send(EmbedPayload(("text",)))
    assert fake.hanging.wait(WAIT_S)
    embedder.port.send(Cancel(5))
    assert isinstance(embedder.end(), Cancelled)
    assert fake.hung_up.wait(WAIT_S)


def test_what_is_no_embedding_is_refused(embedder: Calling) -> None:
    assert "embeds texts" in embedder.failure(ToolPayload(print, ())).message
    assert embedder.port.kinds == {PrimitiveKind.EMBEDDING}


def test_a_remote_embedder_has_vectors_of_one_length(fake: FakeEndpoint) -> None:
    model = open_remote_models(None, fake.url, None).embedder
    assert model is not None
    model.first.check_dims(DIMS)
    with pytest.raises(InputError, match="leave dimensions out"):
        model.first.check_dims(16)


@given(seed=st.integers(0, 2**32 - 1), dims=st.sampled_from([1, 2, 3, 8, 64, 384, 1024]))
def test_rounding_changes_no_digest(seed: int, dims: int) -> None:
    random = np.random.default_rng(seed)
    vector = random.normal(size=dims).astype(np.float32)
    vector /= np.linalg.norm(vector)
    rounded = (vector * (1 + random.normal(scale=1e-6, size=dims))).astype(np.float32)
    assert digest(rounded) == digest(vector)


def test_other_models_have_another_digest() -> None:
    random = np.random.default_rng(0)
    vectors = random.normal(size=(200, 384)).astype(np.float32)
    assert len({digest(vector) for vector in vectors}) == 200


# -- ranking ----------------------------------------------------------------------------------


def test_passages_get_their_scores_in_their_order(reranker: Calling, fake: FakeEndpoint) -> None:
    ranked = reranker.result(RANKED)
    assert isinstance(ranked, Reranked)
    assert ranked.scores == (0.0, 0.3, 0.1)
    body = fake.asked[-1].body
    assert body["documents"][1] == "Rock 1\nAda keeps Rock 1."
    assert body["query"] == RANKED.question


@pytest.mark.parametrize("path", ["/v1/rerank", "/rerank"])
def test_the_shape_of_tei_is_found_beside_the_path(
    thread: RuntimeThread, fake: FakeEndpoint, path: str
) -> None:
    fake.ranks = False

    def tei(asked: Asked) -> Reply | None:
        if asked.path != path:
            return None
        if "texts" not in asked.body:
            return plain(422, {"error": "missing field `texts`"})
        if len(asked.body["texts"]) > 32:
            return plain(422, {"error": "batch size 33 > maximum allowed batch size 32"})
        return plain(200, [{"index": n, "score": -n} for n, _ in enumerate(asked.body["texts"])])

    fake.instead = tei
    model = open_remote_models(None, None, fake.url).reranker
    assert model is not None
    assert model.first.is_tei
    port = remote_reranker("reranking", model.endpoints(), SystemClock(), thread.event_loop)
    ranked = Calling(port).result(RANKED)
    many = RerankPayload("Who?", (ReadingText("", "Ada."),) * 70)
    ranked_in_parts = Calling(port).result(many)
    thread.call_last(port.close)
    assert isinstance(ranked, Reranked)
    assert ranked.scores == (0.0, -1.0, -2.0)
    assert isinstance(ranked_in_parts, Reranked)
    assert [-score for score in ranked_in_parts.scores] == [*range(32), *range(32), *range(6)]


def scores_of(*entries: object) -> Reply:
    return plain(200, {"results": list(entries)})


GOOD = [{"index": n, "relevance_score": 0.5} for n in range(3)]
BAD_SCORES = {
    "too few": scores_of(*GOOD[:2]),
    "one twice": scores_of(GOOD[0], GOOD[0], GOOD[1]),
    "an index too high": scores_of(*GOOD[:2], {"index": 7, "relevance_score": 1}),
    "no number": scores_of(*GOOD[:2], {"index": 2, "relevance_score": "high"}),
    "not a number": scores_of(*GOOD[:2], {"index": 2, "relevance_score": float("nan")}),
    "no index": scores_of(*GOOD[:2], {"relevance_score": 1}),
    "no objects": scores_of(1, 2, 3),
    "no list": plain(200, {"results": 3}),
}


@pytest.mark.parametrize("how", BAD_SCORES)
def test_scores_that_cannot_be_used_have_one_clear_end(
    reranker: Calling, fake: FakeEndpoint, how: str
) -> None:
    fake.others["/rerank"] = BAD_SCORES[how]
    failed = reranker.failure(RANKED)
    assert f"model 'fake-model': {fake.url} sent" in failed.message
    assert "score" in failed.message
