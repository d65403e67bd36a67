"""One scheduler for each engine: orders admission, never runs anything. (Teola §5.2)"""

from dataclasses import dataclass, field

from heddle.runtime.batching import Pending, Policy, Take


@dataclass(slots=True)
class EngineScheduler:
    """The primitives that wait for one engine.

    Mutates: `add`, `drop` and `decide` change `pending`, keyed by (request, primitive).
    """

    policy: Policy
    pending: dict[tuple[int, str], Pending] = field(default_factory=dict)

    def add(self, primitive: Pending) -> None:
        """Queue a primitive."""
        self.pending[primitive.request_id, primitive.primitive] = primitive

    def drop_request(self, request_id: int) -> None:
        """Forget everything of a request that has ended."""
        for key in [k for k in self.pending if k[0] == request_id]:
            del self.pending[key]

    def decide(self, rows_free: int, rows_in_flight: int) -> tuple[Take, ...]:
        """Return what to send now. Reads no clock and does no I/O."""
        if not self.pending or rows_free <= 0:
            return ()
        takes = self.policy(tuple(self.pending.values()), rows_free, rows_in_flight)
        for take in takes:
            self._remove(take)
        return takes

    def _remove(self, take: Take) -> None:
        key = take.request_id, take.primitive
        primitive = self.pending[key]
        primitive.rows -= take.rows
        if not primitive.rows:
            del self.pending[key]
