"""A sequence on its way from one lane to another. (Transfer)"""

from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Protocol

from heddle.core.payloads import Segment
from heddle.core.tasks import Priority


@dataclass(frozen=True, slots=True, eq=False)
class SequenceKv:
    """A finished prefill: its segments and the KV of their first `num_computed_tokens`.

    `block` is whatever the worker exported (for torch a `heddle.kv.page_store.KvBlock`); only a
    worker of the same model reads it. The importing lane's handle keeps the prefill's task id.
    """

    task_id: int
    salt: str
    priority: Priority
    may_reuse: bool
    segments: tuple[Segment, ...]
    num_computed_tokens: int
    fingerprint: str
    block: object


class KvExchange(Protocol):
    """Carries sequences between lanes; the host provides it."""

    def send(self, lane: str, sequence: SequenceKv) -> None:
        """Hand a sequence to a lane."""
        ...

    def receive(self, lane: str) -> Items[SequenceKv]:
        """Return and forget what has arrived for a lane."""
        ...
