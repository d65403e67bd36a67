"""Several LLM lanes behind one port: prefilled on some, decoded on others. (Trinity §3.1)"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from heddle.core.commands import (
    Admit,
    Amend,
    Cancel,
    Command,
    KvSent,
    LeaveKv,
    LoadKv,
    Release,
    Steer,
)
from heddle.core.credits import Credits
from heddle.core.frames import TERMINAL, Cancelled, Done, Event, Failed, Frame, Load
from heddle.core.payloads import DecodePayload, PrefillPayload, SequenceKv, TransferPayload
from heddle.core.ports import EnginePort
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import KvHandle
from heddle.core.tasks import Priority
from heddle.engines.llm.lanes.lane_choice import LaneChoice
from heddle.engines.llm.lanes.lane_role import LaneRole

LLM_KINDS: Final = frozenset(
    {
        PrimitiveKind.PREFILLING,
        PrimitiveKind.DECODING,
        PrimitiveKind.PRIMING,
        PrimitiveKind.ASKING,
    }
)


@dataclass(frozen=True, slots=True)
class LlmLane:
    """A lane, its role, and how many prompts it decodes at once (`seats`)."""

    port: EnginePort
    role: LaneRole
    seats: int


class _Placed(NamedTuple):
    """Where a task is, and of which request it is."""

    lane: int
    request_id: int


@dataclass(slots=True, eq=False)
class _Prompt:
    """A prompt on lane `lane`, where its KV is called `handle`; `end` is how its prefill ended."""

    lane: int
    handle: KvHandle
    end: Event | None = None

    @property
    def is_computed(self) -> bool:
        return isinstance(self.end, Done)


@dataclass(slots=True, eq=False)
class _Decode:
    """A decode whose prompt is handed over; its task is on lane `lane`, None = on none yet."""

    admit: Admit
    payload: DecodePayload
    prompt: _Prompt
    lane: int | None = None
    is_cancelled: bool = False


@dataclass(slots=True, eq=False)
class DisaggregatedPort:
    """EnginePort over LLM lanes with roles; the runtime sees one engine.

    A prompt goes to the lane that would be through with it first (`LaneChoice`): often the one that
    knows the request's earlier prompts and its question. A decode goes there first, under its own
    task id, as a transfer; with the KV that answers it, it goes on to the decode lane that has
    fewest. None becomes a transfer unless a lane that is up has a seat for it; the others wait
    here, and their prompts in the prefill lane's pages. Prompts that are computed have the seats
    first. What they leave goes to prompts that are not, so that their KV sets out by itself; such a
    seat is not taken from one that is computed meanwhile, so KV for twice the seats may be on its
    way, and no more. A decode that waits fails as soon as its prompt is lost. What a lane that does
    both has prefilled it decodes.

    Args:
        name: the engine's name, as the runtime sees it.
        lanes: the lanes; at least one prefills and one decodes.
        is_up: whether a lane can work right now; where none can, one that comes back is waited for.
        on_sent: told with each prompt how long its lane took to copy its KV out.
        credits: rows that the runtime may have here.
    """

    name: str
    lanes: Sequence[LlmLane]
    is_up: Callable[[EnginePort], bool]
    on_sent: Callable[[KvSent], None]
    credits: Credits
    kinds: frozenset[PrimitiveKind] = LLM_KINDS
    _choice: LaneChoice = field(init=False)
    _tasks: dict[int, _Placed] = field(default_factory=dict)  # all but _decodes
    _prompts: dict[int, _Prompt] = field(default_factory=dict)  # leased, by the prefill
    _decodes: dict[int, _Decode] = field(default_factory=dict)
    _events: list[Event] = field(default_factory=list)
    _stepped_s: float = 0.0  # of prefill lanes, not yet reported [s]
    _last: dict[int, Frame] = field(default_factory=dict)  # each lane's newest, no events
    _wake: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self._choice = LaneChoice(len(self.lanes))

    @property
    def epoch(self) -> int:
        """Grows with every restart of a lane."""
        return sum(lane.port.epoch for lane in self.lanes)

    @property
    def tasks_by_lane(self) -> Mapping[str, int]:
        """How many tasks each lane has; decodes that wait for a seat are on none yet."""
        held = self._held()
        return {lane.port.name: held[n] for n, lane in enumerate(self.lanes)}

    def lane_of(self, task_id: int) -> str:
        """Return the name of the lane that a prompt was sent to; it hasn't ended yet."""
        return self.lanes[self._tasks[task_id].lane].port.name

    def send(self, command: Command) -> None:
        """Pass a command on to the lane that it concerns; never blocks."""
        match command:
            case Admit(task=task) if isinstance(task.payload, DecodePayload):
                self._admit_decode(command, task.payload)
            case Admit():
                self._admit(command)
            case Cancel(task_id=task_id) if task_id in self._decodes:
                self._cancel_decode(self._decodes[task_id])
            case Cancel(task_id=task_id) | Amend(task_id=task_id) | Steer(task_id=int() as task_id):
                self._pass_on(task_id, command)
            case Release(handle=handle) if handle.id in self._prompts:
                prompt = self._prompts.pop(handle.id)
                self._choice.let_go(handle.id)
                self.lanes[prompt.lane].port.send(Release(prompt.handle))
            case Steer() | LoadKv() | LeaveKv():
                for lane in self.lanes:
                    lane.port.send(command)

    def frames(self) -> Sequence[Frame]:
        """Return what the lanes have told, under this engine's name; moves prompts on."""
        frames = [
            self._take_in(number, frame)
            for number, lane in enumerate(self.lanes)
            for frame in lane.port.frames()
        ]
        self._start_transfers()
        if self._events:
            frames.append(self._whole(Frame(self.name, 0, 0.0, tuple(self._events))))
            self._events.clear()
        return frames

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever a lane has told something."""
        self._wake = wake
        for lane in self.lanes:
            lane.port.subscribe(wake)

    # -- commands ---------------------------------------------------------------------------------

    def _admit(self, command: Admit) -> None:
        task, payload = command.task, command.task.payload
        able = self._up([n for n, lane in enumerate(self.lanes) if lane.role.prefills])
        number = self._choice.choose(payload, task.identity.request_id, able)
        port, decodes = self.lanes[number].port, self.lanes[number].role.decodes
        self._tasks[task.task_id] = _Placed(number, task.identity.request_id)
        if isinstance(payload, PrefillPayload) and not decodes:
            # Its decode may wait here for a seat: the prompt is computed meanwhile.
            alone = replace(payload, has_rider=False)
            command = command._replace(task=task._replace(payload=alone))
        port.send(command)
        if isinstance(payload, PrefillPayload) and not payload.is_speculative:
            self._choice.hold(task.task_id, number, len(payload.token_ids))
            # Read after sending: an epoch that ends in between has failed the prefill, while a
            # handle of the epoch before would never be released.
            handle = KvHandle(port.name, port.epoch, task.task_id)
            self._prompts[task.task_id] = _Prompt(number, handle)

    def _decode_lanes(self) -> Sequence[int]:
        return self._up([n for n, lane in enumerate(self.lanes) if lane.role.decodes])

    def _up(self, able: Sequence[int]) -> Sequence[int]:
        """Return which of these lanes can work right now; all of them where none can."""
        return [n for n in able if self.is_up(self.lanes[n].port)] or able

    def _admit_decode(self, command: Admit, payload: DecodePayload) -> None:
        task_id = command.task.task_id
        prompt = self._prompts.get(payload.prefill_task)
        if prompt is None:  # a guess has no lease
            self._admit_ahead(command, payload)
            return
        if self.lanes[prompt.lane].role.decodes:
            self._tasks[task_id] = _Placed(prompt.lane, command.task.identity.request_id)
            self._choice.hold(payload.prefill_task, prompt.lane, payload.sampling.max_tokens)
            self.lanes[prompt.lane].port.send(command)
            return
        self._decodes[task_id] = _Decode(command, payload, prompt)
        self._start_transfers()

    def _admit_ahead(self, command: Admit, payload: DecodePayload) -> None:
        """Send a decode behind a guess where the guess's own lane decodes; else give it up.

        The prompt is computed ahead all the same, so nothing has gone wrong.
        """
        task_id, guess = command.task.task_id, self._tasks.get(payload.prefill_task)
        if guess is not None and self.lanes[guess.lane].role.decodes:
            self._tasks[task_id] = _Placed(guess.lane, command.task.identity.request_id)
            self.lanes[guess.lane].port.send(command)
            return
        self._events.append(Cancelled(task_id))
        self._wake()

    def _start_transfers(self) -> None:
        """Ask for the prompts of decodes that wait, while there are seats for them."""
        for decode in [decode for decode in self._decodes.values() if decode.lane is None]:
            problem = self._problem(decode.prompt)
            if problem is not None:
                self._end(Failed(decode.admit.task.task_id, *problem))
        waiting = [decode for decode in self._decodes.values() if decode.lane is None]
        if not waiting:
            return
        seats = sum(self.lanes[number].seats for number in self._decode_lanes())
        under_way = [d for d in self._decodes.values() if d.lane is not None]
        computed = sum(decode.prompt.is_computed for decode in under_way)
        ahead = len(under_way) - computed
        waiting.sort(key=_order)  # stable
        for decode in waiting:
            is_computed = decode.prompt.is_computed
            if computed + (0 if is_computed else ahead) >= seats:
                break
            computed, ahead = computed + is_computed, ahead + (not is_computed)
            self._transfer(decode)

    def _transfer(self, decode: _Decode) -> None:
        decode.lane = decode.prompt.lane
        task = decode.admit.task._replace(payload=TransferPayload(decode.payload.prefill_task))
        self.lanes[decode.lane].port.send(Admit(task, report_every=0))

    def _problem(self, prompt: _Prompt) -> tuple[str, bool] | None:
        """Return why there will be no KV of a prompt, and whether by its input's fault."""
        port = self.lanes[prompt.lane].port
        match prompt.end:
            case Failed(message=message, is_input=is_input):
                return message, is_input
            case Cancelled():
                return "its prompt was given up", False
            case Done() if prompt.handle.epoch != port.epoch or not self.is_up(port):
                return f"lane lost: the KV of its prompt was on lane {port.name}", False
        return None

    def _end(self, event: Event) -> None:
        """Tell the runtime of a decode's end that happened here."""
        del self._decodes[event.task_id]
        self._events.append(event)
        self._wake()

    def _cancel_decode(self, decode: _Decode) -> None:
        task_id = decode.admit.task.task_id
        decode.is_cancelled = True
        if decode.lane is not None:
            self.lanes[decode.lane].port.send(Cancel(task_id))
        else:
            self._end(Cancelled(task_id))

    def _pass_on(self, task_id: int, command: Command) -> None:
        decode = self._decodes.get(task_id)
        placed = self._tasks.get(task_id)
        number = decode.lane if decode is not None else placed and placed.lane
        if number is not None:
            self.lanes[number].port.send(command)

    # -- frames -----------------------------------------------------------------------------------

    def _take_in(self, number: int, frame: Frame) -> Frame:
        self._last[number] = frame._replace(events=())  # they may hold a prompt's KV
        if not self.lanes[number].role.decodes:
            self._stepped_s += frame.seconds
        told = [self._answer(number, event) for event in frame.events]
        return self._whole(frame._replace(events=tuple(e for e in told if e is not None)))

    def _answer(self, number: int, event: Event) -> Event | None:
        """Take an event in; return what the runtime is to hear of it."""
        decode = self._decodes.get(event.task_id)
        if decode is None:
            placed = self._tasks.get(event.task_id)
            if placed is None or placed.lane != number:
                return None
            if isinstance(event, Failed):
                self._choice.fail(placed.request_id)
            if isinstance(event, TERMINAL):
                del self._tasks[event.task_id]
                if event.task_id in self._prompts:
                    self._prompts[event.task_id].end = event
            return event
        if decode.lane != number:
            return None
        if isinstance(event, Done) and isinstance(event.result, SequenceKv):
            return self._move(decode, event.result)
        if isinstance(event, TERMINAL):
            del self._decodes[event.task_id]
        return event

    def _move(self, decode: _Decode, prompt: SequenceKv) -> Event | None:
        """Send a decode on with its prompt's KV."""
        stepped_s, self._stepped_s = self._stepped_s, 0.0
        self.on_sent(KvSent(prompt.seconds, stepped_s))
        task = decode.admit.task
        if decode.is_cancelled:
            del self._decodes[task.task_id]
            return Cancelled(task.task_id)
        decode.lane = self._least_full_lane()
        self._choice.let_go(decode.payload.prefill_task)
        moved = task._replace(payload=replace(decode.payload, prompt=prompt))
        self.lanes[decode.lane].port.send(decode.admit._replace(task=moved))
        return None

    def _least_full_lane(self) -> int:
        """Return the decode lane with most free seats by their share, the first of several."""
        held = self._held()
        return min(self._decode_lanes(), key=lambda n: (held[n] / self.lanes[n].seats, n))

    def _held(self) -> Counter[int]:
        """Return how many tasks each lane has, by its number."""
        held = Counter(placed.lane for placed in list(self._tasks.values()))
        decodes = list(self._decodes.values())
        held.update(decode.lane for decode in decodes if decode.lane is not None)
        return held

    def _whole(self, frame: Frame) -> Frame:
        """Return a lane's frame under this engine's name, with the state of all of them.

        Only lanes that prefill report what steps cost: the runtime needs it for prompts only.
        """
        last = [self._last[number] for number in sorted(self._last)]
        prefilling = [f for n, f in sorted(self._last.items()) if self.lanes[n].role.prefills]
        return frame._replace(
            lane=self.name,
            epoch=self.epoch,
            load=Load(
                running=sum(part.load.running for part in last),
                waiting=sum(part.load.waiting for part in last) + self._waiting,
                bytes_free=sum(part.load.bytes_free for part in last),
            ),
            costs=prefilling[0].costs if prefilling else None,
            number=0,
            notes=tuple(dict.fromkeys(note for part in last for note in part.notes)),
            gauges=_sums([part.gauges for part in last]),
        )

    @property
    def _waiting(self) -> int:
        return sum(decode.lane is None for decode in self._decodes.values())


def _order(decode: _Decode) -> tuple[bool, Priority]:
    """Return what decodes that wait are ordered by."""
    return not decode.prompt.is_computed, decode.admit.task.identity.priority


def _sums(parts: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: sum(part.get(name, 0.0) for part in parts) for name in names}
