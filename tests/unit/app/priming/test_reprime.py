"""Chunks met without primed KV: which are primed, when, and what becomes of the others."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from heddle.app.models.model_files import ModelFiles
from heddle.app.observe.server_state import ReprimingState
from heddle.app.priming import reprime
from heddle.app.priming.reprime import Repriming, repriming_of
from heddle.app.server_config import ServerConfig
from heddle.core.errors import Busy, EngineError, InputError
from heddle.core.kv_reuse import PrimedWith
from heddle.core.results import FusedKv, Primed
from heddle.core.tasks import Optimizations, Priority
from heddle.corpus.chunking import Chunking, chunk_document
from heddle.corpus.document import Document
from heddle.corpus.records import EmbedderStamp
from heddle.corpus.store import CorpusStore
from heddle.runtime.events import Answer, NodeStarted
from heddle.runtime.receipt import ReceiptDraft
from tests.helpers.server_state import eventually

NEIGHBOURS = 2
PRECEDING = PrimedWith.PRECEDING


class FakeServer:
    """Answers priming requests as the test scripts it, and notes them."""

    def __init__(self, store, model):
        self.store = store
        self.config = ServerConfig(model, store.place.work, optimizations=Optimizations.APPROX)
        self.asked = []  # chunk, whether with neighbours
        self.errors = []  # raised by the next requests, or by their answers
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.is_new = True

    def submit(self, workflow, inputs, *, priority, tenant, deadline_s):
        assert (priority, tenant) == (Priority.BULK, inputs["passage"].tenant)
        error = self.errors.pop(0) if self.errors else None
        if isinstance(error, Busy):
            raise error
        self.asked.append((inputs["passage"].chunk_id, "vectors" in inputs, inputs.get("before")))

        def result():
            assert self.may_answer.wait(30)
            if error is not None:
                raise error
            return SimpleNamespace(slots={"stored": Primed(9, NEIGHBOURS, self.is_new)})

        return SimpleNamespace(result=result)


@pytest.fixture
def store(tmp_path):
    """One document of some chunks, searchable."""
    with CorpusStore.open(tmp_path / "corpus", create=True) as opened:
        opened.set_embedder(EmbedderStamp("fake", 4, "float32"))
        text = "\n\n".join(f"Of {topic}: " + f"{topic} again. " * 60 for topic in ("a", "b", "c"))
        document = Document("d", "D", text, "", tenant="north")
        opened.documents.put_document(document, chunk_document(document, Chunking()))
        ids = [chunk.chunk_id for chunk in opened.documents.pending_chunks(9)]
        opened.store_vectors(ids, np.ones((len(ids), 4), np.float32) / 2)
        opened.chunk_kv.set_neighbours_max("model", PRECEDING, NEIGHBOURS)
        yield opened


@pytest.fixture
def server(store, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    return FakeServer(store, model)


@pytest.fixture
def running(server, store):
    made = []

    def start(model="model", **settings):
        made.append(Repriming(store, model, server.submit, **settings))
        return made[-1]

    yield start
    server.may_answer.set()
    for one in made:
        one.stop()
        one.join()


def ids_of(store):
    return [i for batch in store.vectors() for i in batch.chunk_ids.tolist()]


def touch(store):
    """Raise the corpus's revision and nothing else."""
    document = Document("x", "X", "Something.", "")
    store.documents.put_document(document, chunk_document(document, Chunking()))
    ids = [chunk.chunk_id for chunk in store.documents.pending_chunks(9)]
    store.store_vectors(ids, np.ones((1, 4), np.float32) / 2)


def has_ended(one, **expected):
    wanted = {"waiting": 0, "primed": 0, "failed": 0, "dropped": 0, "problem": "", **expected}
    eventually(lambda: one.state() == ReprimingState(**wanted))


# --- which -----------------------------------------------------------------------------------


def test_what_a_request_has_met_is_primed_raw_first_with_what_precedes_it(server, store, running):
    first, second, *_ = ids_of(store)
    one = running()
    one.met([second, first], PRECEDING)
    has_ended(one, primed=2)
    [before] = store.passages([first])
    assert server.asked == [
        (second, False, None),
        (second, True, (before,)),
        (first, False, None),
        (first, True, ()),
    ]


def test_the_receipt_of_an_answer_says_what_it_met(server, store, running):
    chunk = ids_of(store)[0]
    one, told = running(), []
    draft = ReceiptDraft(
        kv_reuse=[
            FusedKv("epic", 0.1, {}, unprimed=(chunk,), primed_with=PRECEDING),
            FusedKv("epic", 0, {}),
        ]
    )
    answer = Answer("", (), {}, draft.close(Optimizations.APPROX, 0.1, "exact"))
    push = one.watched(told.append)
    for event in (NodeStarted("n", 0), answer):
        push(event)
    has_ended(one, primed=1)
    assert told == [NodeStarted("n", 0), answer]


def test_a_corpus_that_was_never_primed_for_the_model_is_left_alone(server, store, running):
    one = running("other")
    one.met(ids_of(store), PRECEDING)
    has_ended(one)
    assert server.asked == []
    store.chunk_kv.set_neighbours_max("other", PRECEDING, 5)
    one.met(ids_of(store)[:1], PRECEDING)
    has_ended(one, primed=1)


def test_a_chunk_is_tried_once_until_the_corpus_changes(server, store, running):
    """Such as one without neighbours, whose primed KV there never is."""
    chunk = ids_of(store)[0]
    one = running()
    server.is_new = False
    for _ in range(3):
        one.met([chunk], PRECEDING)
        has_ended(one)
    eventually(lambda: len(server.asked) == 2)
    touch(store)
    one.met([chunk], PRECEDING)
    eventually(lambda: len(server.asked) == 4)


def test_a_chunk_that_was_deleted_meanwhile_is_skipped(server, store, running):
    chunks = ids_of(store)
    store.documents.delete_document("d", tenant="north")
    one = running()
    one.met(chunks, PRECEDING)
    has_ended(one)
    assert server.asked == []


def test_only_a_server_that_keeps_primed_kv_primes_anew(server, store):
    model, index = server.config.generator, server.config.index
    files = ModelFiles(model, 1, "model-00000000")
    made = repriming_of(server.config, files, store, server.submit)
    assert made is not None
    made.met(ids_of(store)[:1], PRECEDING)
    has_ended(made, primed=1)  # the corpus is primed for this model
    made.stop()
    made.join()
    for changes in (
        {"optimizations": Optimizations.EXACT},
        {"kv_reuse_memory_bytes": 0},
        {"kv_reuse_disk_bytes": 0},
        {"reprime": False},
    ):
        given = {"optimizations": Optimizations.APPROX, **changes}
        config = ServerConfig(model, index, **given)
        assert repriming_of(config, files, store, server.submit) is None
    assert repriming_of(server.config, None, store, server.submit) is None
    assert repriming_of(server.config, files, None, server.submit) is None


def test_a_corpus_that_can_not_be_written_turns_it_off(server, store, monkeypatch, caplog):
    caplog.set_level("INFO", logger=reprime.__name__)
    monkeypatch.setattr(reprime, "write_problem", lambda _: "kv: read-only file system")
    one = Repriming(store, "model", server.submit)
    one.met(ids_of(store), PRECEDING)
    assert one.state() == ReprimingState(0, 0, 0, 0, "kv: read-only file system")
    assert "nothing is primed again: kv: read-only file system" in caplog.text


# --- bounds ----------------------------------------------------------------------------------


def test_one_is_under_way_at_a_time_and_too_many_are_dropped(server, store, running, caplog):
    caplog.set_level("INFO", logger=reprime.__name__)
    chunks = ids_of(store)
    server.may_answer.clear()
    one = running(waiting_max=2)
    one.met(chunks[:1], PRECEDING)
    eventually(lambda: len(server.asked) == 1)
    one.met([chunks[0], chunks[1], chunks[1], chunks[2], 901], PRECEDING)
    assert one.state() == ReprimingState(2, 0, 0, 2, "")
    assert len(server.asked) == 1
    assert "2 chunks are not primed again now: 2 wait" in caplog.text
    server.may_answer.set()
    has_ended(one, primed=2, dropped=2)


def test_what_is_remembered_is_bounded(server, store, running, monkeypatch):
    monkeypatch.setattr(reprime, "SETTLED_MAX", 1)
    one, (first, last) = running(), ids_of(store)[:2]
    one.met([first, last], PRECEDING)
    has_ended(one, primed=2)
    one.met([last], PRECEDING)
    has_ended(one, primed=2)
    one.met([first], PRECEDING)
    has_ended(one, primed=3)


# --- failures and ends -----------------------------------------------------------------------


def test_a_full_server_is_asked_again(server, store, running):
    server.errors = [Busy("full", wait_s=0.01), Busy("full", wait_s=0.01)]
    one = running()
    one.met(ids_of(store)[:1], PRECEDING)
    has_ended(one, primed=1)


def test_after_a_failure_it_rests_and_what_failed_is_tried_when_it_is_met_again(
    server, store, running
):
    chunk, other, *_ = ids_of(store)
    server.errors = [EngineError("disk full", engine="llm", request_ids=())]
    one = running(retry_s=0.01)
    one.met([chunk], PRECEDING)
    eventually(lambda: "disk full" in one.state().problem)
    one.met([other], PRECEDING)
    has_ended(one, primed=1, failed=1)
    one.met([chunk], PRECEDING)
    has_ended(one, primed=2, failed=1)


def test_while_it_rests_nothing_is_sent_and_it_can_be_stopped(server, store, running):
    server.errors = [EngineError("disk full", engine="llm", request_ids=())]
    one = running(retry_s=3600.0)
    one.met(ids_of(store)[:2], PRECEDING)
    eventually(lambda: "disk full" in one.state().problem)
    assert (one.state().waiting, len(server.asked)) == (1, 1)
    one.stop()
    one.join()
    assert len(server.asked) == 1


def test_a_chunk_longer_than_the_context_is_told_once_and_holds_nobody_up(server, store, running):
    chunk, other, *_ = ids_of(store)
    server.errors = [InputError("91 tokens and 80 fit")]
    one = running(retry_s=3600.0)
    one.met([chunk, other], PRECEDING)
    has_ended(one, primed=1, failed=1)
    one.met([chunk], PRECEDING)
    has_ended(one, primed=1, failed=1)
    assert [asked[0] for asked in server.asked] == [chunk, other, other]


def test_a_broken_invariant_ends_it_visibly(server, store, running, caplog):
    server.errors = [AssertionError("no such slot")]
    one = running()
    one.met(ids_of(store)[:2], PRECEDING)
    has_ended(one, problem="AssertionError: no such slot")
    assert "broke an invariant" in caplog.text
    one.join()
    one.met(ids_of(store), PRECEDING)
    assert one.state().waiting == 0


def test_stopped_before_anything_was_met_it_ends(server, store):
    one = Repriming(store, "model", server.submit)
    one.stop()
    one.join()
    one.met(ids_of(store), PRECEDING)
    assert one.state() == ReprimingState(0, 0, 0, 0, "")
