"""How long each stage of a request waited and ran, out of its receipt."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from heddle.core.primitives import PrimitiveKind
from heddle.runtime.receipt import Span

Producers: TypeAlias = Mapping[str, frozenset[str]]
"""The primitives whose values each primitive reads, by name."""
UNKNOWN: Final[Producers] = {}


@dataclass(frozen=True, slots=True)
class StageTime:
    """A stage, one primitive as it ran: times from the request's arrival [s].

    The last of its inputs was whole at `free_s`. From `begun_s` on it had them all and was with
    its engine.
    """

    span: Span
    free_s: float
    begun_s: float

    @property
    def waited_s(self) -> float:
        """How long it was ready and not sent to its engine [s]."""
        return self.span.sent_s - self.span.ready_s

    @property
    def ran_s(self) -> float:
        """How long its engine had it, once its inputs were whole [s]."""
        return self.span.done_s - self.begun_s

    @property
    def held_s(self) -> float:
        """When its engine first had some of it for itself [s].

        What takes a list item by item is there before the list is whole. A decode is sent with its
        prefill, and the engine's steps until that ends are the prefill's.
        """
        return self.begun_s if self.span.kind is PrimitiveKind.DECODING else self.span.sent_s


def stage_times(spans: Iterable[Span], producers: Producers = UNKNOWN) -> tuple[StageTime, ...]:
    """Return the times of the stages in the order in which they ended.

    A decode is sent along with its prefill and begins when that ends: counted from when it was
    sent, the prefill would be in both. So it is with what begins with the first items of a list:
    it runs beside the stage that writes the list, and counts from that stage's end.

    Args:
        spans: those of one receipt.
        producers: of each primitive; where one is missing, only a decode's prefill is found.
    """
    times: list[StageTime] = []
    ended_s: dict[str, float] = {}
    last_s: dict[tuple[str, str], float] = {}  # by node and engine
    for span in sorted(spans, key=lambda span: span.done_s):
        place = span.node, span.engine
        inputs_s = [ended_s[name] for name in producers.get(span.name, ()) if name in ended_s]
        if span.kind is PrimitiveKind.DECODING and place in last_s:
            inputs_s.append(last_s[place])
        free_s = max([span.ready_s, *inputs_s])
        times.append(StageTime(span, free_s, max(span.sent_s, free_s)))
        ended_s[span.name] = last_s[place] = span.done_s
    return tuple(times)
