"""Answers that were given before: which are taken, which are checked, and which are void."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from heddle.core.errors import ConfigError, HeddleError, StorageError
from heddle.core.frames import Done
from heddle.core.passages import Passage
from heddle.core.payloads import EmbedPayload, PrefillPayload, SearchPayload
from heddle.core.results import Hits, RankedHits, Vectors
from heddle.core.tasks import Optimizations
from heddle.runtime.admission import RuntimeLimits
from heddle.runtime.answer_cache import AnswerCacheLimits
from heddle.runtime.events import Retrieved, TokenDelta
from heddle.runtime.receipt import LookupOutcome
from heddle.workflow.caching.answer_caching import Caching, cached
from heddle.workflow.ragraph import END, RAGraph
from tests.helpers.fake_ports import Bench, hits_of

NEAR = 0.9


@dataclass
class FakeLog:
    """A corpus's log; `gone` maps chunk ids to the revisions that deleted them."""

    revision: int = 1
    gone: dict[int, int] = field(default_factory=dict)
    error: HeddleError | None = None

    def deleted(self, after_revision):
        if self.error is not None:
            raise self.error
        return np.array([c for c, r in self.gone.items() if r > after_revision], np.int64)

    def delete(self, chunk_id):
        self.revision += 1
        self.gone[chunk_id] = self.revision


class Corpus:
    """A bench whose questions have given vectors and whose searches find given chunks."""

    def __init__(self, **options):
        self.bench = Bench(passages=self, **options)
        self.log = FakeLog()
        self.bench.runtime.requests.keeping.changes = self.log
        self.vectors, self.chunks, self.texts = {}, {}, {}
        self.bench.embedding.on_admit = self._embed
        self.bench.vector.on_admit = self._search

    def know(self, question, angle, *chunks):
        """Give a question's vector, a point of the circle, and what is found there."""
        self.vectors[question] = (np.cos(angle), np.sin(angle))
        self.chunks[round(float(np.cos(angle)), 4)] = chunks

    def _embed(self, task):
        if not isinstance(task.payload, EmbedPayload):
            return None
        rows = [self.vectors.get(text, (0.0, 1.0)) for text in task.payload.texts]
        return (Done(task.task_id, Vectors(np.array(rows, np.float32))),)

    def _search(self, task):
        if not isinstance(task.payload, SearchPayload):
            return None
        found = self.chunks.get(round(float(task.payload.queries[0, 0]), 4))
        if found is None:
            return (Done(task.task_id, hits_of(task.payload)),)
        distances = np.arange(len(found), dtype=np.float32)
        return (Done(task.task_id, Hits(np.array([found]), distances[None])),)

    # -- PassageSource
    def passages(self, chunk_ids):
        return [
            Passage(i, "d", f"t{i}", self.texts.get(i, f"x{i}"))
            for i in chunk_ids
            if i not in self.log.gone
        ]

    def count_damaged(self, chunk_ids, tenant):
        return 0

    # -- what tests ask
    def ask(self, workflow, question="why", **options):
        call = self.bench.submit(workflow, {"query": question}, **options)
        self.bench.assert_idle()
        return call

    def outcome(self, workflow, question="why", **options):
        return self.ask(workflow, question, **options).answer.receipt.answer_lookup.outcome

    def count(self, kind):
        ports = (self.bench.embedding, self.bench.vector, self.bench.llm)
        return sum(isinstance(t.payload, kind) for port in ports for t in port.tasks())


@pytest.fixture
def corpus():
    return Corpus()


@pytest.fixture(scope="module")
def exact(oneshot):
    return cached(oneshot, Caching(adds=True))


@pytest.fixture(scope="module")
def similar(oneshot):
    return cached(oneshot, Caching(adds=True, similarity=NEAR, allows_similar=True))


def test_an_equal_question_gets_the_answer_that_was_given(corpus, exact):
    first = corpus.ask(exact).answer
    again = corpus.ask(exact)
    assert again.answer.text == first.text == "hello"
    assert again.answer.passages == first.passages
    assert again.answer.finish_reason == first.finish_reason
    assert again.answer.slots.keys() == first.slots.keys()
    assert [type(event) for event in again.events[:2]] == [Retrieved, TokenDelta]
    assert again.events[1] == TokenDelta("answer", "hello")
    assert corpus.count(PrefillPayload) == corpus.count(SearchPayload) == 1
    lookup = again.answer.receipt.answer_lookup
    assert (lookup.outcome, lookup.similarity, lookup.question, lookup.is_checked) == (
        LookupOutcome.EQUAL,
        1.0,
        "why",
        False,
    )


def test_after_a_change_elsewhere_the_search_runs_again_and_the_answer_holds(corpus, exact):
    corpus.ask(exact)
    corpus.log.revision += 1
    lookup = corpus.ask(exact).answer.receipt.answer_lookup
    assert (lookup.outcome, lookup.is_checked) == (LookupOutcome.EQUAL, True)
    assert corpus.count(SearchPayload) == 2
    assert corpus.count(PrefillPayload) == 1
    assert not corpus.ask(exact).answer.receipt.answer_lookup.is_checked


def test_a_passage_that_is_found_now_voids_the_answer(corpus, exact):
    corpus.know("why", 0.1, 1, 2)
    corpus.ask(exact)
    corpus.know("why", 0.1, 1, 7)
    corpus.log.revision += 1
    again = corpus.ask(exact).answer
    assert again.receipt.answer_lookup.outcome is LookupOutcome.CHANGED
    assert [p.chunk_id for p in again.passages] == [1, 7]
    assert corpus.count(PrefillPayload) == 2
    assert corpus.bench.runtime.answers.state.dropped["changed"] == 1
    assert corpus.outcome(exact) is LookupOutcome.EQUAL


def test_a_passage_whose_text_is_another_voids_the_answer(corpus, exact):
    corpus.know("why", 0.1, 1, 2)
    corpus.ask(exact)
    corpus.texts[2] = "other"
    corpus.log.revision += 1
    assert corpus.outcome(exact) is LookupOutcome.CHANGED


def test_a_deleted_passage_takes_its_answers_along_at_the_next_lookup_of_any_question(
    corpus, exact
):
    corpus.know("why", 0.1, 1, 2)
    corpus.know("how", 0.7, 3, 4)
    corpus.ask(exact)
    corpus.log.delete(2)
    corpus.ask(exact, "how")
    assert corpus.bench.runtime.answers.state.entries == 1
    assert corpus.outcome(exact) is LookupOutcome.MISS


def test_an_answer_whose_passage_is_deleted_while_it_is_written_is_not_kept(corpus, exact):
    corpus.know("why", 0.1, 1, 2)
    corpus.bench.llm.holds = lambda task: not isinstance(task.payload, PrefillPayload)
    call = corpus.bench.submit(exact, {"query": "why"})
    corpus.log.delete(1)
    corpus.bench.llm.answer_all()
    corpus.bench.cycle()
    assert call.answer.text == "hello"
    assert corpus.bench.runtime.answers.state.entries == 0


@pytest.mark.parametrize("kind", [StorageError, ConfigError])
def test_an_answer_is_given_though_the_corpus_cannot_be_read_when_it_is_to_be_kept(
    corpus, exact, kind
):
    corpus.bench.llm.holds = lambda task: not isinstance(task.payload, PrefillPayload)
    call = corpus.bench.submit(exact, {"query": "why"})
    corpus.log.delete(1)
    corpus.log.error = kind("the corpus can't be read")
    corpus.bench.llm.answer_all()
    corpus.bench.cycle()
    assert call.answer.text == "hello"
    assert corpus.bench.runtime.answers.state.entries == 0


def test_without_a_log_every_answer_is_checked(corpus, exact):
    corpus.bench.runtime.requests.keeping.changes = None
    corpus.ask(exact)
    assert corpus.ask(exact).answer.receipt.answer_lookup.is_checked


@pytest.mark.parametrize(
    "other",
    [
        {"tenant": "b"},
        {"where": (("lang", ("en",)),)},
        {"optimizations": Optimizations.APPROX},
    ],
    ids=str,
)
def test_a_request_of_another_scope_shares_nothing(corpus, exact, other):
    corpus.ask(exact)
    assert corpus.outcome(exact, **other) is LookupOutcome.MISS


def test_a_workflow_with_another_prompt_shares_nothing_and_an_equal_one_does(corpus):
    def graph(prompt):
        graph = RAGraph("mine", inputs=("tone",)).add_retrieval("find", topk=2)
        return graph.add_generation("answer", prompt).add_answer_cache().compile()

    def outcome(prompt, tone):
        call = corpus.bench.submit(graph(prompt), {"query": "why", "tone": tone})
        return call.answer.receipt.answer_lookup.outcome

    assert outcome("{tone} {docs}{query}", "dry") is LookupOutcome.MISS
    assert outcome("{tone} {docs}{query}", "dry") is LookupOutcome.EQUAL
    assert outcome("{tone} {docs}{query}!", "dry") is LookupOutcome.MISS
    assert outcome("{tone} {docs}{query}", "warm") is LookupOutcome.MISS
    assert outcome("{tone} {docs}{query}", ["dry"]) is LookupOutcome.UNUSED


def test_workflows_that_end_at_other_nodes_share_nothing(corpus):
    def outcome(*ends):
        graph = RAGraph("two").add_retrieval("find", topk=2)
        graph.add_generation("long", "{docs}{query}", output="long")
        graph.add_generation("short", "{docs}Shortly: {query}", output="short")
        graph.add_join("both", ["short"], "joined").add_answer_cache()
        for end in ends:
            graph.add_edge(end, END)
        return corpus.outcome(graph.compile())

    assert outcome("long", "short", "both") is LookupOutcome.MISS
    assert outcome("long", "both") is LookupOutcome.MISS
    assert outcome("long", "both") is LookupOutcome.EQUAL


def test_workflows_of_other_step_limits_share_nothing(corpus):
    def outcome(max_steps):
        graph = RAGraph("mine", max_steps=max_steps).add_retrieval("find", topk=2)
        graph.add_generation("answer", "{docs}{query}").add_answer_cache()
        return corpus.outcome(graph.compile())

    assert outcome(9) is LookupOutcome.MISS
    assert outcome(8) is LookupOutcome.MISS


def test_a_drawn_answer_is_neither_kept_nor_taken(corpus):
    graph = RAGraph("drawn").add_retrieval("find", topk=2)
    graph.add_generation("answer", "{docs}{query}", temperature=0.7).add_answer_cache()
    for _ in range(2):
        lookup = corpus.ask(graph.compile()).answer.receipt.answer_lookup
        assert lookup.outcome is LookupOutcome.UNUSED
        assert lookup.reason == "node 'answer' draws its tokens (temperature 0.7)"
    assert corpus.bench.runtime.answers.state.entries == 0


def test_an_answer_of_a_degraded_search_is_not_kept(corpus, exact):
    def degraded(task):
        return (Done(task.task_id, Hits(*_two(), notes=("a shard is down",))),)

    corpus.bench.vector.on_admit = degraded
    corpus.ask(exact)
    assert corpus.bench.runtime.answers.state.entries == 0


def test_a_degraded_check_drops_nothing(corpus, exact):
    corpus.know("why", 0.1, 1, 2)
    corpus.ask(exact)
    corpus.log.revision += 1
    whole = corpus.bench.vector.on_admit
    corpus.bench.vector.on_admit = lambda task: (
        Done(task.task_id, Hits(*_two(), notes=("a shard is down",))),
    )
    assert corpus.outcome(exact) is LookupOutcome.CHANGED
    corpus.bench.vector.on_admit = whole
    assert corpus.outcome(exact) is LookupOutcome.EQUAL


@pytest.mark.parametrize("kind", [StorageError, ConfigError])
def test_a_corpus_that_cannot_be_read_costs_the_lookup_alone(corpus, exact, kind):
    corpus.ask(exact)
    corpus.log.delete(99)
    corpus.log.error = kind("the corpus can't be read")
    answer = corpus.ask(exact).answer
    assert answer.text == "hello"
    assert answer.receipt.answer_lookup.reason == "the corpus can't be read"


def test_a_similar_question_that_finds_the_same_passages_gets_the_answer(corpus, similar):
    corpus.know("who keeps the mine", 0.1, 1, 2)
    corpus.know("please, who keeps the mine", 0.2, 2, 1)
    corpus.ask(similar, "who keeps the mine")
    answer = corpus.ask(similar, "please, who keeps the mine").answer
    lookup = answer.receipt.answer_lookup
    assert (lookup.outcome, lookup.question) == (LookupOutcome.SIMILAR, "who keeps the mine")
    assert lookup.is_checked
    assert lookup.similarity == pytest.approx(np.cos(0.1), abs=1e-6)
    assert corpus.count(PrefillPayload) == 1
    # What was taken is no answer of its own: the next question is compared with the first.
    assert corpus.bench.runtime.answers.state.entries == 1


@pytest.mark.parametrize(
    ("question", "angle", "chunks", "outcome"),
    [
        ("please, who keeps the mine", 0.2, (1, 3), LookupOutcome.OTHER_PASSAGES),
        ("who doesn't keep the mine", 0.2, (1, 2), LookupOutcome.MISS),
        ("please, who keeps the mine", 1.2, (1, 2), LookupOutcome.MISS),
    ],
    ids=["other passages", "a word that turns it", "too far"],
)
def test_a_question_that_is_not_similar_enough_is_answered(
    corpus, similar, question, angle, chunks, outcome
):
    corpus.know("who keeps the mine", 0.1, 1, 2)
    corpus.know(question, angle, *chunks)
    corpus.ask(similar, "who keeps the mine")
    assert corpus.outcome(similar, question) is outcome
    assert corpus.count(PrefillPayload) == 2
    assert corpus.outcome(similar, "who keeps the mine") is LookupOutcome.EQUAL


def test_a_similar_question_needs_a_search_for_the_question(corpus, hyde):
    workflow = cached(hyde, Caching(adds=True, similarity=NEAR, allows_similar=True))
    corpus.know("why is it", 0.1, 1, 2)
    corpus.know("why it is", 0.1, 1, 2)
    corpus.ask(workflow, "why is it")
    assert corpus.outcome(workflow, "why it is") is LookupOutcome.MISS
    assert corpus.outcome(workflow, "why is it") is LookupOutcome.EQUAL


def test_that_nothing_was_found_is_no_answer_to_a_similar_question(corpus):
    graph = RAGraph("quote").add_retrieval("find", topk=1).add_extraction("quote")
    workflow = graph.add_answer_cache(similarity=NEAR).compile()
    corpus.know("why is it", 0.1, 1)
    corpus.know("why it is", 0.1, 1)
    first = corpus.ask(workflow, "why is it").answer
    assert first.nearest
    assert not first.quotes
    assert corpus.outcome(workflow, "why it is") is LookupOutcome.MISS
    again = corpus.ask(workflow, "why is it").answer
    assert again.receipt.answer_lookup.outcome is LookupOutcome.EQUAL
    assert again.nearest == first.nearest
    assert not [event for event in corpus.ask(workflow).events if isinstance(event, TokenDelta)]


def test_a_search_by_words_for_several_texts_runs_again_as_it_was(corpus):
    graph = RAGraph("split").add_generation("split", "{query}", "parts", parse="lines")
    graph.add_retrieval("find", "{query} {parts}", topk=2, collect=True, hybrid=True)
    workflow = graph.add_generation("answer", "{docs}{query}").add_answer_cache().compile()
    corpus.bench.llm.texts["split"] = ["one\ntwo"]
    corpus.bench.vector.on_admit = _by_words
    corpus.ask(workflow)
    corpus.log.revision += 1
    assert corpus.ask(workflow).answer.receipt.answer_lookup.is_checked
    first, again = (t.payload for t in corpus.bench.vector.tasks())
    assert first.words == again.words == ("why one", "why two")
    assert np.array_equal(first.queries, again.queries)
    assert (first.topk, first.scope) == (again.topk, again.scope)


def test_a_request_that_is_cancelled_while_it_checks_leaves_nothing(corpus, exact):
    corpus.ask(exact)
    corpus.log.revision += 1
    corpus.bench.vector.on_admit = lambda task: None
    corpus.bench.vector.holds = lambda task: True
    call = corpus.bench.submit(exact, {"query": "why"})
    corpus.bench.cancel(call)
    assert call.ends
    corpus.bench.assert_idle()


def test_an_answer_that_is_too_old_is_not_taken(exact):
    corpus = Corpus(limits=RuntimeLimits(answers=AnswerCacheLimits(age_s_max=10.0)))
    corpus.ask(exact)
    corpus.bench.clock.time_s += 11.0
    assert corpus.outcome(exact) is LookupOutcome.MISS


def _by_words(task):
    hits = hits_of(task.payload)
    ranked = RankedHits(hits.labels, hits.distances)
    return (Done(task.task_id, replace(hits, by_words=ranked)),)


def _two():
    return np.array([[8, 9]]), np.zeros((1, 2), np.float32)
