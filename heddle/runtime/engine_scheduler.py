"""One scheduler for each engine: orders admission, never runs anything. (Teola §5.2)"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from heddle.runtime.batching import Pending, Policy, Take


@dataclass(slots=True)
class EngineScheduler:
    """The primitives that wait for one engine.

    A cycle pass may have named some that go `first` of their class, in an order of its own; all
    others go in that of the policy.

    Mutates: `add`, `drop` and `decide` change `pending`, keyed by (request, primitive).
    """

    policy: Policy
    pending: dict[tuple[int, str], Pending] = field(default_factory=dict)
    first: tuple[tuple[int, str], ...] = ()

    def add(self, primitive: Pending) -> None:
        """Queue a primitive."""
        self.pending[primitive.request_id, primitive.primitive] = primitive

    def drop_request(self, request_id: int) -> None:
        """Forget everything of a request that has ended."""
        for key in [k for k in self.pending if k[0] == request_id]:
            del self.pending[key]

    def decide(
        self,
        rows_free: int,
        rows_in_flight: int,
        may_send: Callable[[int], bool] | None = None,
    ) -> tuple[Take, ...]:
        """Return what to send now, of the requests that may. Reads no clock and does no I/O."""
        if not self.pending or rows_free <= 0:
            return ()
        takes: list[Take] = []
        for group in self._groups():
            if may_send is not None:
                group = [p for p in group if may_send(p.request_id)]
            rows_waiting = sum(p.rows for p in group)
            taken = self.policy(group, rows_free, rows_in_flight)
            for take in taken:
                self._remove(take)
            takes += taken
            rows = sum(take.rows for take in taken)
            rows_free, rows_in_flight = rows_free - rows, rows_in_flight + rows
            if rows < rows_waiting:
                break
        return tuple(takes)

    def _groups(self) -> Iterator[Sequence[Pending]]:
        """Yield what waits in the order of its groups; the policy orders each group."""
        named = [self.pending[key] for key in self.first if key in self.pending]
        if not named:
            yield tuple(self.pending.values())
            return
        others = [p for key, p in self.pending.items() if key not in self.first]
        for priority in sorted({p.priority for p in self.pending.values()}):
            yield from ([p] for p in named if p.priority == priority)
            yield [p for p in others if p.priority == priority]

    def _remove(self, take: Take) -> None:
        key = take.request_id, take.primitive
        primitive = self.pending[key]
        primitive.rows -= take.rows
        if not primitive.rows:
            del self.pending[key]
