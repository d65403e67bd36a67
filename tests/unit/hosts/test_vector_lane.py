"""A killed vector lane: acknowledged passages are found, those on their way are stored."""

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from heddle.core.primitives import PrimitiveKind
from heddle.corpus.chunking import TextChunk
from heddle.corpus.document import Document
from heddle.corpus.records import EmbedderStamp
from heddle.corpus.store import CorpusStore
from heddle.engines.vector.build import VectorSettings
from heddle.hosts.lane_spec import EngineSpec, LaneSpec
from heddle.hosts.process import ProcessLane
from heddle.runtime.supervision import LANE_LOST
from heddle.workflow.indexing import indexing_workflow
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.workflow import Workflow
from tests.helpers.fake_ports import EMBED, Bench, Call, FakePort

pytestmark = pytest.mark.slow  # starts lanes

PATIENCE_S = 60.0
KINDS = frozenset({PrimitiveKind.SEARCHING, PrimitiveKind.INGESTION})
FACTORY = "heddle.engines.vector.build:build_engine"
DOCUMENTS = 8


class Corpus:
    """Documents without vectors, a vector lane over them, and a runtime on that lane.

    Chunk n has the text "x" * n, whose vector is (n, 1).
    """

    def __init__(self, directory: Path) -> None:
        self.store = CorpusStore.open(directory, create=True)
        self.store.set_embedder(EmbedderStamp("lengths", 2, "float32"))
        for n in range(1, DOCUMENTS + 1):
            document = Document(f"d{n}", "title", "x" * n, "")
            self.store.documents.put_document(document, [TextChunk(0, "title", "x" * n)])
        spec = EngineSpec("vector", FACTORY, VectorSettings(directory), 64, KINDS)
        self.lane = ProcessLane(LaneSpec("lane", (spec,)))
        self.lane.wait_ready()
        self._embedding = FakePort("embedding", EMBED)
        self._bench = Bench(ports=[self._embedding, self.lane.ports["vector"]])
        self._woken = threading.Event()
        self.lane.ports["vector"].subscribe(self._woken.set)

    def close(self) -> None:
        self.lane.close()
        self.store.close()

    def submit(self, workflow: Workflow, inputs: Mapping[str, object]) -> Call:
        self._bench.clock.time_s = time.monotonic()
        call = self._bench.submit(workflow, inputs, cycle=False)
        self._cycle()
        return call

    def ingest(self, *chunk_ids: int) -> Call:
        """Send the vectors of chunks on their way."""
        texts = tuple("x" * n for n in chunk_ids)
        return self.submit(indexing_workflow(), {"texts": texts, "chunk_ids": chunk_ids})

    def found(self) -> set[int]:
        """Search for everything."""
        search = RAGraph("search").add_retrieval("find", topk=DOCUMENTS).compile()
        answer = self.end(self.submit(search, {"query": "x"})).answer
        return {passage.chunk_id for passage in answer.passages if passage.distance < np.inf}

    def end(self, call: Call) -> Call:
        """Wait until a request has ended."""
        until_s = time.monotonic() + PATIENCE_S
        while not call.ends:
            assert time.monotonic() < until_s, "the request hangs"
            self._woken.wait(1.0)
            self._woken.clear()
            self._cycle()
        return call

    def _cycle(self) -> None:
        self._bench.clock.time_s = time.monotonic()
        self._bench.runtime.cycle(self._bench.clock.time_s)
        while self._embedding.has_frames:
            self._bench.runtime.cycle(self._bench.clock.time_s)

    def stop(self) -> int:
        """Stop the lane: what is sent from now on is on its way when it is killed."""
        pid = self.lane.health.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        return pid


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[Corpus]:
    corpus = Corpus(tmp_path)
    yield corpus
    corpus.close()


def test_acknowledged_vectors_are_found_and_those_on_their_way_are_stored(corpus: Corpus) -> None:
    first = corpus.end(corpus.ingest(1, 2, 3))
    assert first.answer.slots["stored"].count == 3
    pid = corpus.stop()
    second = corpus.ingest(4, 5)
    os.kill(pid, signal.SIGKILL)
    answer = corpus.end(second).answer
    assert answer.slots["stored"].count == 2
    assert answer.receipt.retries == 1
    assert LANE_LOST in answer.receipt.degradations[0].reason
    assert corpus.lane.health.restarts == 1
    assert corpus.found() == {1, 2, 3, 4, 5}
    assert corpus.store.vector_count == 5


def test_vectors_that_were_stored_without_a_word_are_not_stored_twice(corpus: Corpus) -> None:
    pid = corpus.stop()
    call = corpus.ingest(1, 2)
    # As if the lane had died between its commit and its answer.
    corpus.store.store_vectors([1, 2], np.array([[1, 1], [2, 1]], np.float32))
    revision = corpus.store.revision
    os.kill(pid, signal.SIGKILL)
    stored = corpus.end(call).answer.slots["stored"]
    assert (stored.count, stored.revision) == (2, revision)
    assert corpus.found() == {1, 2}
    assert corpus.store.vector_count == 2


def test_a_search_whose_lane_is_killed_is_answered_by_the_next(corpus: Corpus) -> None:
    corpus.end(corpus.ingest(1, 2, 3))
    pid = corpus.stop()
    search = RAGraph("search").add_retrieval("find", topk=3).compile()
    call = corpus.submit(search, {"query": "xx"})
    os.kill(pid, signal.SIGKILL)
    answer = corpus.end(call).answer
    assert [passage.chunk_id for passage in answer.passages] == [2, 1, 3]
    assert answer.receipt.retries == 1
    assert LANE_LOST in answer.receipt.degradations[0].reason
