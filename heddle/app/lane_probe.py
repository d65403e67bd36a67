"""Times bursts on an embedding lane that nobody else uses: at start-up, and for profiles."""

import itertools
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

# Bursts at start-up, as (queries, words of each), thrice each: short and long, few and many. The
# first three already tell a large model's cost in a few seconds.
COLD_START: Final = ((1, 8), (4, 8), (1, 100), (4, 40), (8, 25), (2, 180)) * 3
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
    """Return a text that a burst makes a query of about so many tokens of, at least 6."""
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

    def __post_init__(self) -> None:
        self.port.subscribe(self._arrived.set)

    def burst(self, texts: Sequence[str]) -> Burst:
        """Embed texts as one query each, sent at once; a number makes each one new to caches.

        Raises:
            EngineError: the lane failed, or didn't answer within a minute.
        """
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
        """Return what the lane's steps cost, from a few bursts within about two seconds."""
        self.burst([WORD])  # the first call of a model isn't like the others
        samples: list[Sample] = []
        started_s = self.clock.now_s()
        for queries, words in COLD_START:
            samples += self.burst([WORD * words] * queries).steps
            if self.clock.now_s() - started_s > COLD_START_S_MAX and _are_enough(samples):
                break
        return LaneCost.fitted(self.port.name, samples, self.clock.now_s())

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
