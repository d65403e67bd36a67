"""How long each primitive of a request waited and worked, out of its receipt."""

from collections.abc import Iterator
from dataclasses import dataclass

from heddle.core.primitives import PrimitiveKind
from heddle.runtime.receipt import Receipt, Span


@dataclass(frozen=True, slots=True)
class PrimitiveTime:
    """What a primitive took [s]: `waited_s` until it was sent, `ran_s` from its turn to its end."""

    span: Span
    waited_s: float
    ran_s: float


def primitive_times(receipt: Receipt) -> Iterator[PrimitiveTime]:
    """Yield the times in the order in which the primitives ended.

    A decode is sent along with its prefill and begins when that ends: counted from when it was
    sent, the prefill would be in both.
    """
    ended_s: dict[tuple[str, str], float] = {}
    for span in sorted(receipt.spans, key=lambda span: span.done_s):
        place = span.node, span.engine
        begun_s = span.sent_s
        if span.kind is PrimitiveKind.DECODING:
            begun_s = max(begun_s, ended_s.get(place, begun_s))
        ended_s[place] = span.done_s
        yield PrimitiveTime(span, span.sent_s - span.ready_s, span.done_s - begun_s)
