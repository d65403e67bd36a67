"""An engine of your own: it ranks passages by the words that they share with the question."""

import re
import sys
from collections import deque

from heddle import OwnEngine, RAGraph, Server
from heddle.core.commands import Admit, Cancel, Command
from heddle.core.frames import Cancelled, Done, Event, Frame
from heddle.core.payloads import RerankPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Reranked
from heddle.core.tasks import Task


class WordRanker:
    """Carries out Reranking, one task a step, on a thread that the server gives it."""

    name = "word_ranker"
    kinds = frozenset({PrimitiveKind.RERANKING})

    def __init__(self) -> None:
        self._waiting: deque[Task] = deque()
        self._events: list[Event] = []

    @property
    def has_work(self) -> bool:
        """Whether a step would do something."""
        return bool(self._waiting or self._events)

    def apply(self, command: Command) -> None:
        """Take a task in, or let one go; each ends with one event."""
        if isinstance(command, Admit):
            self._waiting.append(command.task)
        elif isinstance(command, Cancel):
            for task in [t for t in self._waiting if t.task_id == command.task_id]:
                self._waiting.remove(task)
                self._events.append(Cancelled(task.task_id))

    def step(self, now_s: float, budget_s: float) -> Frame:
        """Rank the passages of one task."""
        if self._waiting:
            task = self._waiting.popleft()
            assert isinstance(task.payload, RerankPayload)
            self._events.append(Done(task.task_id, ranked(task.payload)))
        events, self._events = tuple(self._events), []
        return Frame(self.name, 1, 0.0, events)

    def predicted_step_s(self) -> float:
        """Return about how long a step takes [s]."""
        return 0.001


def ranked(payload: RerankPayload) -> Reranked:
    """Return how many words of the question each passage has."""
    asked = words(payload.question)
    return Reranked(tuple(float(len(asked & words(p.text))) for p in payload.passages))


def words(text: str) -> set[str]:
    """Return the words of a text."""
    return set(re.findall(r"\w+", text.lower()))


def main(corpus: str) -> None:
    """Search, rank, and print what was kept, with its score."""
    graph = RAGraph("ranked").add_retrieval("search", topk=3, rerank=1, output="docs")
    with Server(None, corpus, engines=[OwnEngine(WordRanker(), credits_total=8)]) as server:
        answer = server.app(graph).invoke("In which year was Oak Mill founded?")
        engines = [s.engine for s in answer.receipt.spans if s.kind is PrimitiveKind.RERANKING]
        for passage in answer.passages:
            print(f"{passage.title}: {passage.score:g} words, by {engines[0]}")


if __name__ == "__main__":
    main(sys.argv[1])
