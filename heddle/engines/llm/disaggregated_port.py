"""Several LLM lanes behind one port: prefilled on some, decoded on others. (Trinity §3.1)"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from heddle.core.commands import Admit, Amend, Cancel, Command, Release, Steer
from heddle.core.credits import Credits
from heddle.core.frames import TERMINAL, Cancelled, Done, Event, Frame, Load
from heddle.core.payloads import DecodePayload, PrefillPayload, SequenceKv, TransferPayload
from heddle.core.ports import EnginePort
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import KvHandle
from heddle.engines.llm.lane_role import LaneRole

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
    """A lane, what it does, and how many prompts it decodes at once (`seats`)."""

    port: EnginePort
    role: LaneRole
    seats: int


@dataclass(slots=True, eq=False)
class _Decode:
    """A decode whose prompt is handed over; its task is on lane `lane`, None = on none yet."""

    admit: Admit
    payload: DecodePayload
    lane: int | None = None
    is_cancelled: bool = False


@dataclass(slots=True, eq=False)
class DisaggregatedPort:
    """EnginePort over LLM lanes with roles; the runtime sees one engine.

    All prompts of a request go to the same prefill lane, which knows the beginning of the next one
    and its question. A decode goes there first, under its own task id, as a transfer; with the KV
    that answers it, it goes on to the decode lane that has fewest. None becomes a transfer unless a
    lane that is up has a seat for it, so what is on its way is bounded; the others wait here, and
    their prompts in the prefill lane's pages. What a lane that does both has prefilled it decodes.

    Args:
        name: the engine's name, as the runtime sees it.
        lanes: the lanes; at least one prefills and one decodes.
        is_up: whether a lane can work right now; where none can, one that comes back is waited for.
        on_sent: told how long a prefill lane took to copy KV out [s].
        credits: rows that the runtime may have here.
    """

    name: str
    lanes: Sequence[LlmLane]
    is_up: Callable[[EnginePort], bool]
    on_sent: Callable[[float], None]
    credits: Credits
    kinds: frozenset[PrimitiveKind] = LLM_KINDS
    _tasks: dict[int, int] = field(default_factory=dict)  # task -> its lane, but for _decodes
    _leases: dict[int, tuple[int, KvHandle]] = field(default_factory=dict)  # by the prefill
    _decodes: dict[int, _Decode] = field(default_factory=dict)
    _events: list[Event] = field(default_factory=list)
    _last: dict[int, Frame] = field(default_factory=dict)  # each lane's newest, no events
    _wake: Callable[[], None] = lambda: None

    @property
    def epoch(self) -> int:
        """Grows with every restart of a lane."""
        return sum(lane.port.epoch for lane in self.lanes)

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
            case Release(handle=handle) if handle.id in self._leases:
                number, own = self._leases.pop(handle.id)
                self.lanes[number].port.send(Release(own))
            case Steer():
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
        task = command.task
        number = self._prefill_lane(task.identity.request_id)
        port = self.lanes[number].port
        self._tasks[task.task_id] = number
        if isinstance(task.payload, PrefillPayload) and not task.payload.is_speculative:
            handle = KvHandle(port.name, port.epoch, task.task_id)
            self._leases[task.task_id] = number, handle
        port.send(command)

    def _prefill_lane(self, request_id: int) -> int:
        up = self._up([n for n, lane in enumerate(self.lanes) if lane.role.prefills])
        return up[request_id % len(up)]

    def _decode_lanes(self) -> Sequence[int]:
        return self._up([n for n, lane in enumerate(self.lanes) if lane.role.decodes])

    def _up(self, able: Sequence[int]) -> Sequence[int]:
        """Return which of these lanes can work right now; all of them where none can."""
        return [n for n in able if self.is_up(self.lanes[n].port)] or able

    def _admit_decode(self, command: Admit, payload: DecodePayload) -> None:
        task_id = command.task.task_id
        number, _ = self._leases[payload.prefill_task]
        if self.lanes[number].role.decodes:
            self._tasks[task_id] = number
            self.lanes[number].port.send(command)
            return
        self._decodes[task_id] = _Decode(command, payload)
        self._start_transfers()

    def _start_transfers(self) -> None:
        """Ask for the prompts of decodes that wait, while there are seats for them."""
        waiting = [decode for decode in self._decodes.values() if decode.lane is None]
        if not waiting:
            return
        seats = sum(self.lanes[number].seats for number in self._decode_lanes())
        free = seats - (len(self._decodes) - len(waiting))
        waiting.sort(key=lambda decode: decode.admit.task.identity.priority)  # stable
        for decode in waiting[: max(0, free)]:
            decode.lane, _ = self._leases[decode.payload.prefill_task]
            payload = TransferPayload(decode.payload.prefill_task)
            task = decode.admit.task._replace(payload=payload)
            self.lanes[decode.lane].port.send(Admit(task, report_every=0))

    def _cancel_decode(self, decode: _Decode) -> None:
        task_id = decode.admit.task.task_id
        decode.is_cancelled = True
        if decode.lane is not None:
            self.lanes[decode.lane].port.send(Cancel(task_id))
            return
        del self._decodes[task_id]
        self._events.append(Cancelled(task_id))
        self._wake()

    def _pass_on(self, task_id: int, command: Command) -> None:
        decode = self._decodes.get(task_id)
        number = self._tasks.get(task_id) if decode is None else decode.lane
        if number is not None:
            self.lanes[number].port.send(command)

    # -- frames -----------------------------------------------------------------------------------

    def _take_in(self, number: int, frame: Frame) -> Frame:
        self._last[number] = frame._replace(events=())  # they may hold a prompt's KV
        told = [self._answer(number, event) for event in frame.events]
        return self._whole(frame._replace(events=tuple(e for e in told if e is not None)))

    def _answer(self, number: int, event: Event) -> Event | None:
        """Take an event in; return what the runtime is to hear of it."""
        decode = self._decodes.get(event.task_id)
        if decode is None:
            if self._tasks.get(event.task_id) != number:
                return None
            if isinstance(event, TERMINAL):
                del self._tasks[event.task_id]
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
        self.on_sent(prompt.seconds)
        task = decode.admit.task
        if decode.is_cancelled:
            del self._decodes[task.task_id]
            return Cancelled(task.task_id)
        decode.lane = self._least_full_lane()
        moved = task._replace(payload=replace(decode.payload, prompt=prompt))
        self.lanes[decode.lane].port.send(decode.admit._replace(task=moved))
        return None

    def _least_full_lane(self) -> int:
        """Return the decode lane with most free seats by their share, the first of several."""
        held = Counter(self._tasks.values())
        held.update(decode.lane for decode in self._decodes.values() if decode.lane is not None)
        return min(self._decode_lanes(), key=lambda n: (held[n] / self.lanes[n].seats, n))

    def _whole(self, frame: Frame) -> Frame:
        """Return a lane's frame under this engine's name, with the state of all of them.

        What steps cost is told by lanes that prefill: the runtime asks it of prompts only.
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


def _sums(parts: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: sum(part.get(name, 0.0) for part in parts) for name in names}
