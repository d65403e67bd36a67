"""Users' own passes and engines in a server: they act, and a bad one breaks its requests alone."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from heddle import ConfigError, CyclePass, EngineError, GraphPass, InternalError, RAGraph, Server
from heddle.core.commands import Steer
from heddle.core.frames import Done, Frame
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Reranked
from heddle.passes.cycle_view import SetBudget
from heddle.passes.runner import PassRunner
from tests.helpers.degraded import kinds
from tests.helpers.fake_ports import Bench, ManualClock

QUESTION = "Who is the keeper of Rock 3?"


class Breaking(GraphPass):
    """Loses the passages of searches that are asked for many."""

    name = "breaking"

    def apply(self, graph):
        kept = tuple(p for p in graph.primitives if getattr(p.config, "topk", 0) < 4)
        return None if kept == graph.primitives else replace(graph, primitives=kept)


class Lost(CyclePass):
    """Steers an engine that isn't there."""

    name = "lost"

    def apply(self, view):
        return (SetBudget("elsewhere", 0.1, 0.0),)


class Ranker:
    """Answers with too few scores where it is asked about `many` passages."""

    name = "ranker"
    kinds = frozenset({PrimitiveKind.RERANKING})
    many = 3

    def __init__(self):
        self.waiting = []

    @property
    def has_work(self):
        return bool(self.waiting)

    def apply(self, command):
        self.waiting.append(command.task)

    def step(self, now_s, budget_s):
        task = self.waiting.pop(0)
        rows = task.payload.rows
        scores = tuple(map(float, range(rows - (rows == self.many))))
        return Frame(self.name, 1, 0.0, (Done(task.task_id, Reranked(scores)),))

    def predicted_step_s(self):
        return 0.0


@contextmanager
def searching(corpus: Path, **how: object) -> Iterator[Server]:
    with Server(None, corpus, engine_host="inline", **how) as server:
        yield server


def found(server: Server, topk: int, rerank: int | None = None, **how: object):
    graph = RAGraph("find").add_retrieval("find", topk=topk, rerank=rerank)
    return server.app(graph).invoke(QUESTION, **how)


def test_a_pass_that_breaks_the_graph_fails_its_request_alone(corpus: Path):
    with searching(corpus, passes=[Breaking(), Lost()]) as server:
        beside = server.submit(RAGraph("find").add_retrieval("find", topk=2), QUESTION)
        with pytest.raises(InternalError, match="pass 'breaking' failed: dangling edge"):
            found(server, 5)
        assert len(beside.result().passages) == 2
        assert len(found(server, 5, optimizations="off").passages) == 5
        notes = server.health()["notes"]["passes"]
        assert notes == ["optimizer pass lost has failed: what it changes is left out"]


def test_or_is_left_out_and_the_receipt_says_so(corpus: Path):
    with searching(corpus, passes=[Breaking()], on_pass_failure="keep") as server:
        answer = found(server, 5)
        assert len(answer.passages) == 5
        assert "pass 'breaking' failed" in answer.receipt.degradations[0].reason
        assert kinds(answer.receipt) == ["pass"]


def test_it_can_be_disabled_by_name(corpus: Path):
    disabled = frozenset({"breaking"})
    with searching(corpus, passes=[Breaking()], disabled_passes=disabled) as server:
        assert len(found(server, 5).passages) == 5
    with pytest.raises(ConfigError, match="disabled_passes: breaking don't exist"):
        Server(None, corpus, disabled_passes=disabled)


def test_the_cycle_pass_of_the_docs_cuts_searches_while_many_wait() -> None:
    page = (Path(__file__).parents[2] / "docs" / "guide" / "extending.md").read_text(
        encoding="utf-8"
    )
    (code,) = (c for c in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "view" in c)
    namespace: dict[str, type[CyclePass]] = {}
    exec(code, namespace)
    documented = namespace["ShortSearchSteps"]()
    bench = Bench(runner=PassRunner(ManualClock(), cycle_passes=(documented,)), vector=1)
    bench.vector.holds = lambda task: True
    search = RAGraph("search").add_retrieval("find", topk=2).compile()
    for waiting in range(12):
        bench.submit(search)
        bench.cycle()
        steered = [c.budget_s for c in bench.vector.sent(Steer) if c.budget_s is not None]
        assert bool(steered) is (waiting >= 10)  # one is in flight
    assert set(steered) == {0.005}


def test_an_engine_of_one_s_own_ranks_and_a_bad_result_fails_its_request_alone(corpus: Path):
    with searching(corpus, engines=[Ranker()]) as server:
        plain, ranked = found(server, 4), found(server, 4, rerank=1)
        assert ranked.passages[0].chunk_id == plain.passages[3].chunk_id
        assert ranked.receipt.spans[-1].engine == "ranker"
        with pytest.raises(EngineError, match=r"Reranked\.scores has 2 scores for 3 passages"):
            found(server, 3, rerank=1)
        assert len(found(server, 4, rerank=2).passages) == 2


def test_an_engine_s_name_that_is_taken_is_refused(corpus: Path):
    taken = Ranker()
    taken.name = "vector"
    with (
        pytest.raises(ConfigError, match="engines: the name 'vector' is taken"),
        searching(corpus, engines=[taken]),
    ):
        pass
