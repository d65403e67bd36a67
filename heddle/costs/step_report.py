"""An engine's report after a step: its events, its time, and its newest step costs."""

from collections.abc import Container, Mapping

from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.frames import NO_COUNTS, Cancelled, Done, Event, Failed, Frame, Load
from heddle.core.ports import Clock
from heddle.core.results import RecallEstimate, Result
from heddle.costs.linear_fit import LinearFit

FIT_EVERY_STEP_UNTIL, FIT_EVERY = 64, 8


class StepReport:
    """Collects an engine's events and hands them out as the frame of each step.

    Every engine has one, of any kind. The engine reports each event of a task when it happens, and
    calls `begin` and `frame` around the work of a step.

    Args:
        lane: the engine's name.
        epoch: its lane's epoch.
        clock: measures steps.
        prior_s: the cost model's first guess, seconds for one unit of each feature.
    """

    def __init__(self, lane: str, epoch: int, clock: Clock, prior_s: Mapping[str, float]) -> None:
        self.lane, self.epoch = lane, epoch
        self._clock = clock
        self._fit = LinearFit(lane, prior_s)
        self._costs = self._fit.snapshot()
        self._steps = 0
        self._started_s = 0.0
        self._events: list[Event] = []

    @property
    def costs(self) -> CostSnapshot:
        """The cost model as the newest frame has it."""
        return self._costs

    @property
    def has_events(self) -> bool:
        """Whether events wait for the next frame."""
        return bool(self._events)

    def tell(self, event: Event) -> None:
        """Put an event into the next frame."""
        self._events.append(event)

    def done(self, task_id: int, result: Result) -> None:
        """Tell that a task has its result."""
        self.tell(Done(task_id, result))

    def failed(
        self, task_id: int, message: str, *, is_input: bool = False, is_away: bool = False
    ) -> None:
        """Tell that a task failed.

        `is_input`: what the caller sent was refused; `is_away`: the corpus can't be reached.
        """
        self.tell(Failed(task_id, message, is_input, is_away=is_away))

    def cancelled(self, task_id: int) -> None:
        """Tell that a task was cancelled and holds nothing any more."""
        self.tell(Cancelled(task_id))

    def forget(self, task_ids: Container[int]) -> None:
        """Drop the events of these tasks that no frame has yet."""
        self._events = [event for event in self._events if event.task_id not in task_ids]

    def begin(self) -> None:
        """Start the clock of a step."""
        self._started_s = self._clock.now_s()

    def frame(
        self,
        features: Mapping[str, float],
        load: Load,
        *,
        has_computed: bool,
        has_work: bool,
        recall: RecallEstimate | None = None,
        notes: tuple[str, ...] = (),
        gauges: Mapping[str, float] = NO_COUNTS,
    ) -> Frame:
        """End the step that `begin` started and return its frame, with all events so far.

        Args:
            features: what the step did, in the units of the cost model.
            load: how full the engine is now.
            has_computed: whether its time says something about costs.
            has_work: whether another step would do something.
            recall: what the searches of an index find, where it is known.
            notes: where the engine runs degraded.
            gauges: its state, by the names of `core.gauges`.

        Mutates: forgets the events; fits the cost model.
        """
        seconds = max(0.0, self._clock.now_s() - self._started_s)
        if has_computed:
            self._learn(features, seconds)
        events, self._events = tuple(self._events), []
        return Frame(
            self.lane,
            self.epoch,
            seconds,
            events,
            features=features,
            load=load,
            costs=self._costs,
            has_work=has_work,
            recall=recall,
            notes=notes,
            gauges=gauges,
        )

    def _learn(self, features: Mapping[str, float], seconds: float) -> None:
        """Fit the cost model; once it knows its lane, only now and then, as it costs time too."""
        self._steps += 1
        if self._steps <= FIT_EVERY_STEP_UNTIL or self._steps % FIT_EVERY == 0:
            self._fit.observe(features, seconds)
            self._costs = self._fit.snapshot()
