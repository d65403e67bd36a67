"""A pool in front of any search engine; the pool's scheduler decides which search runs when."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from heddle.core.commands import Admit, Cancel, Command, KvSent, Steer
from heddle.core.frames import TERMINAL, Cancelled, Done, Event, Frame
from heddle.core.payloads import SearchPayload
from heddle.core.ports import Closable, SteppedEngine, Waking
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Hits
from heddle.core.tasks import Priority, Task
from heddle.engines.vector.corpus.word_searches import tells_only_words_lack
from heddle.engines.vector.pool.feedback import EVERY_S, PoolTargets, adjusted
from heddle.engines.vector.pool.kv_link import KvLink
from heddle.engines.vector.pool.meters import PoolMeters
from heddle.engines.vector.pool.policies import PoolPolicy
from heddle.engines.vector.pool.requests import PoolRequest, Stage, latest_end_s
from heddle.engines.vector.pool.scheduler import PoolScheduler

DECODES_REMEMBERED = 4096  # requests whose last search is remembered, to tell how long they decode


@dataclass(slots=True, eq=False)
class HeldSearch:
    """A search task in the pool; `started_s` None = the engine doesn't have it yet."""

    admit: Admit
    stage: Stage
    arrived_s: float
    work: float
    started_s: float | None = None
    parks: int = 0


class PooledEngine(SteppedEngine, Protocol):
    """An engine that a pool can stand in front of."""

    def work(self, payload: SearchPayload) -> float:
        """Return how much there is to do for a search, in units of its own; above 0."""
        ...


class PoolEngine:
    """Holds searches back until the scheduler gives them a slot of the engine behind it.

    A parked search keeps its state: the engine serves it after all others. All commands but
    searches go straight through.

    Args:
        engine: carries searches out; it needs twice as many slots as the scheduler.
        stage_of: returns which side asks.
        scheduler: shares the slots.
        prefill_slo_s: how long a prefill search may take from its arrival [s].
        kv_link: what carries KV from prefill to decode.
        meters: what is measured of searches; None = new ones.
    """

    def __init__(
        self,
        engine: PooledEngine,
        stage_of: Callable[[Task], Stage],
        scheduler: PoolScheduler,
        *,
        prefill_slo_s: float,
        kv_link: KvLink,
        meters: PoolMeters | None = None,
    ) -> None:
        self._engine, self._stage_of, self.scheduler = engine, stage_of, scheduler
        self._slo_s, self._kv_link = prefill_slo_s, kv_link
        self._targets = PoolTargets(prefill_wait_s=prefill_slo_s / 2)
        self._meters = PoolMeters() if meters is None else meters
        self._arrived: list[Admit] = []
        self._held: dict[int, HeldSearch] = {}
        self._decoding_since_s: OrderedDict[int, float] = OrderedDict()
        self._events: list[Event] = []
        self._steered_s: float | None = None

    @property
    def name(self) -> str:
        """The lane's name."""
        return self._engine.name

    @property
    def kinds(self) -> frozenset[PrimitiveKind]:
        """The primitives it carries out."""
        return self._engine.kinds

    @property
    def has_work(self) -> bool:
        """Whether a step would do something."""
        may_start = self.scheduler.waiting and self.scheduler.free
        return bool(self._events or self._arrived or may_start) or self._engine.has_work

    def apply(self, command: Command) -> None:
        """Take a command in; searches wait here, the rest goes to the engine."""
        match command:
            case Admit(task=task) if isinstance(task.payload, SearchPayload):
                if not self._knows(task.task_id):
                    self._arrived.append(command)
            case Cancel(task_id=task_id) if self._waits(task_id):
                self._arrived = [a for a in self._arrived if a.task.task_id != task_id]
                self._held.pop(task_id, None)
                self.scheduler.remove(task_id)
                self._events.append(Cancelled(task_id))
            case Steer(kv_sent=KvSent() as kv_sent):
                self._kv_link.sent(kv_sent)
            case Steer(task_id=int() as task_id) if self._knows(task_id):
                # The order of searches is the pool's.
                self._engine.apply(Steer(budget_s=command.budget_s))
            case _:
                self._engine.apply(command)

    def step(self, now_s: float, budget_s: float) -> Frame:
        """Let the scheduler decide, and step the engine behind."""
        for admit in self._arrived:
            self._queue(admit, now_s)
        self._arrived = []
        self._steer(now_s)
        self._carry_out(now_s)
        frame = self._engine.step(now_s, budget_s)
        told = [self._told(event, now_s + frame.seconds) for event in frame.events]
        events, self._events = (*self._events, *told), []
        load = frame.load._replace(waiting=frame.load.waiting + self.scheduler.waiting)
        return frame._replace(
            events=events,
            load=load,
            has_work=self.has_work,
            gauges={**frame.gauges, **self.scheduler.gauges()},
        )

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever the engine behind may have got work by itself."""
        if isinstance(self._engine, Waking):
            self._engine.subscribe(wake)

    def close(self) -> None:
        """Close the engine behind; nothing is called afterwards."""
        if isinstance(self._engine, Closable):
            self._engine.close()

    def predicted_step_s(self) -> float:
        """Return how long the next step should take, by the engine's cost model [s]."""
        return self._engine.predicted_step_s()

    def _knows(self, task_id: int) -> bool:
        return task_id in self._held or any(a.task.task_id == task_id for a in self._arrived)

    def _waits(self, task_id: int) -> bool:
        held = self._held.get(task_id)
        return held.started_s is None if held else self._knows(task_id)

    def _queue(self, admit: Admit, now_s: float) -> None:
        task = admit.task
        stage = self._stage_of(task)
        assert isinstance(task.payload, SearchPayload), "only searches are held"
        work = self._engine.work(task.payload)
        self._held[task.task_id] = HeldSearch(admit, stage, now_s, work)
        ends_by_s = latest_end_s(stage, now_s, self._slo_s, task.seconds_left)
        alone_s = self._meters.alone_s(stage, work)
        self.scheduler.add(PoolRequest(task.task_id, stage, now_s, ends_by_s, alone_s))

    def _steer(self, now_s: float) -> None:
        """Run the control loop, every few hundred milliseconds."""
        if self.scheduler.policy is not PoolPolicy.ADAPTIVE:
            return
        if self._steered_s is not None and now_s < self._steered_s + EVERY_S:
            return
        link_use = self._kv_link.take_use(now_s)
        if self._steered_s is not None:
            signals = self._meters.take_signals(link_use)
            self.scheduler.knobs = adjusted(self.scheduler.knobs, signals, self._targets)
        self._steered_s = now_s

    def _carry_out(self, now_s: float) -> None:
        decision = self.scheduler.decide(now_s)
        for task_id in decision.park:
            self._held[task_id].parks += 1
            self._engine.apply(Steer(task_id=task_id, priority=Priority.BULK))
        for task_id in decision.resume:
            priority = self._held[task_id].admit.task.identity.priority
            self._engine.apply(Steer(task_id=task_id, priority=priority))
        for task_id in decision.start:
            held = self._held[task_id]
            held.started_s, waited_s = now_s, now_s - held.arrived_s
            self._meters.waited(held.stage, waited_s)
            task = held.admit.task
            left_s = max(0.0, task.seconds_left - waited_s)
            self._engine.apply(held.admit._replace(task=task._replace(seconds_left=left_s)))

    def _told(self, event: Event, now_s: float) -> Event:
        """Free the slot of a search that is over here, and have its hits say how it fared.

        While words are looked for a search takes no part in the engine's steps.
        """
        held = self._held.get(event.task_id)
        is_over = isinstance(event, TERMINAL)
        if held is None or not (is_over or tells_only_words_lack(event)):
            return event
        self._free_slot(held, now_s)
        if not is_over:
            return event
        del self._held[event.task_id]
        if held.stage is Stage.DECODE:
            self._note_decode(held, now_s)
        if not isinstance(event, Done) or not isinstance(event.result, Hits):
            return event
        waited_s = 0.0 if held.started_s is None else held.started_s - held.arrived_s
        counts = event.result.counts
        counts.search_wait_s, counts.searches_parked = waited_s, held.parks
        return event

    def _free_slot(self, held: HeldSearch, now_s: float) -> None:
        """Free the slot of a search, if it has one still, and learn from it."""
        had_slot = self.scheduler.remove(held.admit.task.task_id) is not None
        if had_slot and held.started_s is not None and not held.parks:
            self._meters.ran(held.stage, held.work, now_s - held.started_s)

    def _note_decode(self, held: HeldSearch, now_s: float) -> None:
        request_id = held.admit.task.identity.request_id
        since_s = self._decoding_since_s.pop(request_id, held.arrived_s)
        self._meters.decoded(now_s - held.arrived_s, held.arrived_s - since_s)
        self._decoding_since_s[request_id] = now_s
        if len(self._decoding_since_s) > DECODES_REMEMBERED:
            self._decoding_since_s.popitem(last=False)
