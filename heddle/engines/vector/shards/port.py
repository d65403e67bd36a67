"""Several vector workers behind one port: searches go to all of them, their hits are merged."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

import numpy as np

from heddle.core.commands import Admit, Cancel, Command, Steer
from heddle.core.counts import SearchCounts
from heddle.core.credits import Credits
from heddle.core.frames import TERMINAL, Cancelled, Done, Event, Failed, Frame, Load
from heddle.core.gauges import INDEX_VECTORS, POOL_RUNNING, POOL_WAITING
from heddle.core.payloads import Payload, SearchPayload
from heddle.core.ports import EnginePort
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Hits, RecallEstimate

WHOLE_OF: Final[Mapping[str, Callable[[list[float]], float]]] = {
    INDEX_VECTORS: sum,
    POOL_RUNNING: max,
    POOL_WAITING: max,
}
"""How the gauges of workers make that of the whole; of all others it is the smallest."""


NO_WORDS: Final = "each index shard that looked for words was lost"


class LostShard(Enum):
    """What becomes of a search when a worker is lost."""

    DEGRADE = "degrade"  # answered by the others; the receipt says so
    FAIL = "fail"  # it fails, and is tried again where the request's time allows it


@dataclass(slots=True, eq=False)
class Scattered:
    """A task that several workers have; `ends` is what each has answered by its place.

    Where words are looked for too, `whole` is the search with them, which one worker has at a time,
    as each has the words of the whole corpus: the last of `word_workers`.
    """

    topk: int | None
    waiting: set[int]
    ends: dict[int, Event] = field(default_factory=dict)
    whole: Admit | None = None
    word_workers: list[int] = field(default_factory=list)
    has_lost_words: bool = False

    @property
    def found(self) -> dict[int, Hits]:
        """What workers have found, by their place."""
        return {
            number: end.result
            for number, end in sorted(self.ends.items())
            if isinstance(end, Done) and isinstance(end.result, Hits)
        }


@dataclass(slots=True)
class ShardedPort:
    """EnginePort over the workers of a sharded corpus; the runtime sees one engine.

    A search is over when every worker has answered. Words are looked for by one of them; where it
    is lost and the answer may be degraded, another that has answered searches again with them.
    Vectors are stored by the first worker that
    can: the corpus is one, and each worker follows its part of it. Partial hits are not told.

    Args:
        name: the engine's name, as the runtime sees it.
        ports: the workers, each with a part of the corpus.
        is_up: whether a worker can work right now.
        lost_shard: what becomes of a search that not all workers can answer.
        credits: rows that the runtime may have here.
    """

    name: str
    ports: Sequence[EnginePort]
    is_up: Callable[[EnginePort], bool]
    lost_shard: LostShard
    credits: Credits
    epoch: int = 1
    kinds: frozenset[PrimitiveKind] = frozenset({PrimitiveKind.SEARCHING, PrimitiveKind.INGESTION})
    _tasks: dict[int, Scattered] = field(default_factory=dict)
    _last: dict[int, Frame] = field(default_factory=dict)  # each worker's newest

    def send(self, command: Command) -> None:
        """Pass a command on to those whom it concerns; never blocks."""
        match command:
            case Admit(task=task):
                self._admit(command, task.task_id)
            case Cancel(task_id=task_id):
                for number in sorted(self._waiting_for(task_id)):
                    self.ports[number].send(command)
            case Steer(task_id=int() as task_id):
                for number in sorted(self._waiting_for(task_id)):
                    self.ports[number].send(command)
            case _:
                for port in self.ports:
                    port.send(command)

    def frames(self) -> Sequence[Frame]:
        """Return what the workers have told, under this engine's name, answers merged."""
        return [
            self._take_in(number, frame)
            for number, port in enumerate(self.ports)
            for frame in port.frames()
        ]

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever a worker has told something."""
        for port in self.ports:
            port.subscribe(wake)

    def _waiting_for(self, task_id: int) -> set[int]:
        task = self._tasks.get(task_id)
        return set() if task is None else task.waiting

    def _admit(self, command: Admit, task_id: int) -> None:
        payload = command.task.payload
        up = {number for number, port in enumerate(self.ports) if self.is_up(port)}
        if not isinstance(payload, SearchPayload):
            chosen = {min(up, default=0)}
            self._tasks[task_id] = Scattered(None, chosen)
        else:
            everyone = set(range(len(self.ports)))
            # Where no worker is up, or all are needed, the task waits for those that come back.
            chosen = up if up and self.lost_shard is LostShard.DEGRADE else everyone
            self._tasks[task_id] = Scattered(payload.topk, set(chosen))
            if payload.words is not None:
                self._tasks[task_id].whole = command._replace(report_every=0)
                self._tasks[task_id].word_workers = [min(chosen)]
        for number in sorted(chosen):
            asks_words = number == min(chosen)
            part = payload if asks_words else _without_words(payload)
            task = command.task._replace(payload=part)
            self.ports[number].send(command._replace(task=task, report_every=0))

    def _take_in(self, number: int, frame: Frame) -> Frame:
        told = [self._answer(number, event) for event in frame.events]
        events = tuple(event for event in told if event is not None)
        self._last[number] = frame
        last = self._last.values()
        notes = tuple(dict.fromkeys(note for part in last for note in part.notes))
        return frame._replace(
            lane=self.name,
            epoch=self.epoch,
            events=events,
            load=Load(
                running=max(part.load.running for part in last),
                waiting=max(part.load.waiting for part in last),
            ),
            number=0,
            recall=_lowest([part.recall for part in last]),
            notes=notes,
            gauges=_gauges_of([part.gauges for part in last]),
        )

    def _answer(self, number: int, event: Event) -> Event | None:
        """Take one worker's answer in; return the whole one once it is there."""
        task = self._tasks.get(event.task_id)
        if task is None or number not in task.waiting or not isinstance(event, TERMINAL):
            return None
        task.waiting.remove(number)
        if isinstance(event, Failed) and number in task.word_workers[-1:]:
            task.has_lost_words = True
        if not (isinstance(event, Failed) and number in task.ends):  # an earlier answer stands
            task.ends[number] = event
        if task.waiting or self._asks_again(task):
            return None
        del self._tasks[event.task_id]
        return self._whole(event.task_id, task)

    def _asks_again(self, task: Scattered) -> bool:
        """Have another worker look for words, where who had them was lost; return whether one is.

        It searches its part once more, since a task is one search.
        """
        if task.whole is None or not task.has_lost_words or self.lost_shard is LostShard.FAIL:
            return False
        if any(isinstance(e, Cancelled) or _is_refused(e) for e in task.ends.values()):
            return False
        left = [n for n in task.found if n not in task.word_workers and self.is_up(self.ports[n])]
        if not left:
            return False
        task.word_workers.append(left[0])
        task.waiting.add(left[0])
        task.has_lost_words = False
        self.ports[left[0]].send(task.whole)
        return True

    def _whole(self, task_id: int, task: Scattered) -> Event:
        ends = [task.ends[number] for number in sorted(task.ends)]
        if task.topk is None:
            return ends[0]
        failed = [end for end in ends if isinstance(end, Failed)]
        found = list(task.found.values())
        if any(isinstance(end, Cancelled) for end in ends):
            return Cancelled(task_id)
        refused = [end for end in failed if _is_refused(end)]
        must_fail = self.lost_shard is LostShard.FAIL or not found
        if refused or (failed and must_fail):
            return (refused or failed)[0]
        notes: tuple[str, ...] = ()
        if len(found) < len(self.ports):
            reason = failed[0].message if failed else "it is starting again"
            notes = (f"{len(found)} of {len(self.ports)} index shards answered: {reason}",)
        if task.has_lost_words:
            notes += (NO_WORDS,)
        return Done(task_id, merged(found, task.topk, notes))


def merged(parts: Sequence[Hits], topk: int, notes: tuple[str, ...] = ()) -> Hits:
    """Return the nearest of what several workers found, with the counts of all.

    Shapes: labels and distances of each part [n, topk].
    """
    distances = np.concatenate([part.distances for part in parts], axis=1)
    labels = np.concatenate([part.labels for part in parts], axis=1)
    order = np.lexsort((labels, distances), axis=1)[:, :topk]
    own = [note for part in parts for note in part.notes]
    return Hits(
        np.take_along_axis(labels, order, axis=1),
        np.take_along_axis(distances, order, axis=1),
        SearchCounts.at_once([part.counts for part in parts]),
        revision=min(part.revision for part in parts),
        notes=(*dict.fromkeys(own), *notes),
        recall=_lowest([part.recall for part in parts]),
        by_words=next((p.by_words for p in parts if p.by_words is not None), None),
    )


def _is_refused(end: Event) -> bool:
    return isinstance(end, Failed) and end.is_input


def _lowest(estimates: Iterable[RecallEstimate | None]) -> RecallEstimate | None:
    known = [estimate for estimate in estimates if estimate is not None]
    return min(known, key=lambda estimate: estimate.recall, default=None)


def _gauges_of(parts: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    """Return the state of the whole: vectors add up, all else is that of the part worst off."""
    names = {name for part in parts for name in part}
    values = {name: [part[name] for part in parts if name in part] for name in names}
    return {name: WHOLE_OF.get(name, min)(each) for name, each in values.items()}


def _without_words(payload: Payload) -> Payload:
    return replace(payload, words=None) if isinstance(payload, SearchPayload) else payload
