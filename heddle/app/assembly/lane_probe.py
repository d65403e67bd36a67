"""Times bursts on an embedding lane without other callers: at start-up, and for profiles."""

import itertools
import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from heddle.core.commands import Admit
from heddle.core.errors import EngineError
from heddle.core.frames import TERMINAL, Done, Frame
from heddle.core.payloads import EmbedPayload
from heddle.core.ports import Clock, EnginePort
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Vectors
from heddle.core.tasks import Identity, Task
from heddle.costs.batch_cost import BatchShape
from heddle.costs.depth_probing import DepthProbing
from heddle.costs.lane_cost import SIZES_MIN, LaneCost, Sample

log = logging.getLogger(__name__)
# Bursts at start-up, as (queries, tokens of each), thrice each: few and many, short and long. A
# lane gets through the first three in time if a query of 75 tokens takes it less than 3 s.
COLD_START: Final = ((1, 6), (1, 13), (1, 25), (4, 13), (1, 105), (4, 45), (8, 30), (2, 185)) * 3
COLD_START_S: Final = 1.8  # for all of them; a burst takes longer than expected now and then
COLD_START_S_MAX: Final = 2.0
ANSWER_S_MAX: Final = 60.0
WORD: Final = "time "  # one token of common vocabularies
TOKENS_AROUND: Final = 5  # a query's text: two special ones, and three of its number


class Burst(NamedTuple):
    """Queries sent at once: seconds until the last answer, their tokens, and the steps it took."""

    seconds: float
    tokens: int
    steps: tuple[Sample, ...]


def text_of(tokens: int) -> str:
    """Return a text of about `tokens` tokens, at least 6, for one query of a burst."""
    return WORD * max(1, tokens - TOKENS_AROUND)


@dataclass(slots=True)
class LaneProbe:
    """Sends bursts to one port and waits for them. Give the port to a runtime only afterwards.

    Args:
        port: the lane.
        clock: times the bursts, as a client would.
    """

    port: EnginePort
    clock: Clock
    _ids: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    _arrived: threading.Event = field(default_factory=threading.Event)

    def burst(self, texts: Sequence[str]) -> Burst:
        """Embed texts as one query each, sent at once; a number makes each one new to caches.

        Raises:
            EngineError: the lane failed, or didn't answer within a minute.
        """
        self.port.subscribe(self._arrived.set)  # each time: another probe may have been between
        started_s = self.clock.now_s()
        open_tasks = set()
        for text in texts:
            task_id = next(self._ids)
            open_tasks.add(task_id)
            identity = Identity(task_id, "probe")
            payload = EmbedPayload((f"{_number(task_id)} {text}",))
            task = Task(task_id, PrimitiveKind.EMBEDDING, identity, payload)
            self.port.send(Admit(task, report_every=0))
        tokens, steps = 0, []
        while open_tasks:
            for frame in self._frames():
                tokens += self._answered(frame, open_tasks)
                if frame.features.get("tokens"):
                    steps.append(_sample(frame))
        return Burst(self.clock.now_s() - started_s, tokens, tuple(steps))

    def cold_start(self) -> LaneCost:
        """Return what the lane's steps cost, from bursts that take less than two seconds together.

        A burst that probably doesn't fit into the time that is left is left out, unless too few
        sizes were timed to tell a cost at all: a lane so slow takes longer, and the log says so.
        """
        started_s = self.clock.now_s()
        self.burst([text_of(COLD_START[0][1])])  # the first call of a model isn't like the others
        bursts: list[Burst] = []
        samples: list[Sample] = []
        for queries, length in COLD_START:
            left_s = COLD_START_S - (self.clock.now_s() - started_s)
            if _are_enough(samples) and _expected_s(bursts, queries * length) > left_s:
                continue
            bursts.append(self.burst([text_of(length)] * queries))
            samples += bursts[-1].steps
        self._tell_if_slow(self.clock.now_s() - started_s)
        return LaneCost.fitted(self.port.name, samples, self.clock.now_s())

    def _tell_if_slow(self, seconds: float) -> None:
        if seconds > COLD_START_S_MAX:
            log.info(
                "lane %s: timing it took %.1f s instead of %.1f s: even a short text takes it long",
                self.port.name,
                seconds,
                COLD_START_S_MAX,
            )

    def find_depths(self, probing: DepthProbing) -> None:
        """Time the bursts that a probing asks for, until it has enough."""
        text = text_of(probing.length)
        self.burst([text])
        while (queries := probing.next()) is not None:
            probing.take(queries, self.burst([text] * queries).seconds)

    def _frames(self) -> Iterator[Frame]:
        if not self._arrived.wait(ANSWER_S_MAX):
            raise self._error(f"it didn't answer within {ANSWER_S_MAX:.0f} s")
        self._arrived.clear()
        yield from self.port.frames()

    def _answered(self, frame: Frame, open_tasks: set[int]) -> int:
        tokens = 0
        for event in frame.events:
            if not isinstance(event, TERMINAL):
                continue
            if not isinstance(event, Done) or not isinstance(event.result, Vectors):
                raise self._error(f"a probe failed: {event}")
            open_tasks.discard(event.task_id)
            tokens += event.result.tokens
        return tokens

    def _error(self, message: str) -> EngineError:
        return EngineError(message, engine=self.port.name, request_ids=())


def _number(task_id: int) -> str:
    """Return a number as three below 100, up to a million: a token each, so all are as long."""
    high, low = divmod(task_id, 10_000)
    return f"{high} {low // 100} {low % 100}"


def _sample(frame: Frame) -> Sample:
    shape = BatchShape(frame.features["tokens"], frame.features["squares"])
    return Sample(shape, max(frame.seconds, 1e-6))


def _are_enough(samples: Sequence[Sample]) -> bool:
    return len({sample.shape.tokens for sample in samples}) >= SIZES_MIN


def _expected_s(bursts: Sequence[Burst], tokens: int) -> float:
    """Return an upper bound for a burst of `tokens` tokens, from the timed bursts [s]."""
    as_large = [burst.seconds for burst in bursts if burst.tokens >= tokens]
    if as_large:
        return min(as_large)
    largest = max(bursts, key=lambda burst: burst.tokens)
    return largest.seconds * tokens / largest.tokens  # no token of a larger one takes longer
