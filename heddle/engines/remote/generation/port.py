"""The LLM engine that other servers are: an EnginePort without a lane."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from heddle.core.commands import Admit, Cancel, Command, Release
from heddle.core.credits import Credits
from heddle.core.frames import Cancelled, Done, Failed, Frame
from heddle.core.payloads import NO_PAUSE, DecodePayload, PrefillPayload
from heddle.core.ports import Clock
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import KvHandle, Prefilled
from heddle.core.tasks import Task
from heddle.engines.remote.attempts import Attempts
from heddle.engines.remote.dialect import Abilities, Prompt, constraint_refusal
from heddle.engines.remote.endpoint import Endpoints
from heddle.engines.remote.generation.course import Course
from heddle.engines.remote.outlet import EPOCH, Outlet
from heddle.engines.remote.problem import RemoteProblem, Trouble

KINDS = frozenset({PrimitiveKind.PREFILLING, PrimitiveKind.DECODING})
CREDITS_EACH = 2  # a prefill and its decode take one each

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Generation:
    """A decode with the prompt that it continues."""

    prefill: Task
    decode: Task
    deadline_s: float


class RemoteGenerator:
    """EnginePort of a model that other servers run.

    A prefill only keeps its prompt here; its decode sends the one request that does both. The
    prefill counts as done when the first text comes, so the receipt's times mean what they mean
    for an engine of Heddle's own. Cancelling either hangs up.

    The answers are received on an event loop of its own: the runtime's thread does no I/O.

    Args:
        name: the engine's, as the runtime sees it.
        endpoints: the servers.
        seats: generations under way at each server.
        clock: the time of deadlines.
        loop: where requests run; its thread is not the runtime's.
    """

    def __init__(
        self,
        name: str,
        endpoints: Endpoints[Abilities],
        seats: int,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._endpoints = endpoints
        self._clock = clock
        self._loop = loop
        self._credits = Credits(CREDITS_EACH * seats * len(endpoints.all))
        self._outlet = Outlet(name, loop, endpoints.notes)
        self._prompts: dict[int, Task] = {}  # of the runtime's thread; the rest is of the loop's
        self._running: dict[int, asyncio.Task[None]] = {}
        self._decode_of: dict[int, int] = {}
        self._is_closed = False

    @property
    def name(self) -> str:
        """The engine's name."""
        return self._outlet.name

    @property
    def kinds(self) -> frozenset[PrimitiveKind]:
        """Prefilling and decoding."""
        return KINDS

    @property
    def credits(self) -> Credits:
        """Tasks that it may hold at once."""
        return self._credits

    @property
    def epoch(self) -> int:
        """Always 1."""
        return EPOCH

    def send(self, command: Command) -> None:
        """Queue a command; called by the runtime's thread."""
        match command:
            case Admit(task=task) if isinstance(task.payload, PrefillPayload):
                self._prompts[task.task_id] = task
                self._outlet.open.add(task.task_id)
            case Admit(task=task):
                self._admit(task)
            case Cancel(task_id=task_id):
                self._prompts.pop(task_id, None)
                self._loop.call_soon_threadsafe(self._cancel, task_id)
            case Release(handle=handle):
                self._prompts.pop(handle.id, None)
            case _:
                pass  # there is no prompt here to amend, and no step to steer

    def frames(self) -> Sequence[Frame]:
        """Return and forget the frames that have arrived, oldest first."""
        return self._outlet.frames()

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from the loop's thread, whenever frames have arrived."""
        self._outlet.wake = wake

    def close(self) -> None:
        """Hang up, and fail what is under way; called on the loop's thread."""
        self._is_closed = True
        for task in self._running.values():
            task.cancel()
        self._endpoints.close()
        for task_id in sorted(self._outlet.open):
            self._outlet.tell(Failed(task_id, f"engine {self.name} was closed", is_final=True))
        self._outlet.flush()

    # -- on the runtime's thread ----------------------------------------------------------------

    def _admit(self, decode: Task) -> None:
        self._outlet.open.add(decode.task_id)
        payload = decode.payload
        prefill = None
        if isinstance(payload, DecodePayload):
            prefill = self._prompts.pop(payload.prefill_task, None)
        if prefill is None:
            message = f"{self.name} has no prompt for this task"
            failed = Failed(decode.task_id, message, is_final=True)
            self._loop.call_soon_threadsafe(self._outlet.tell, failed)
            return
        deadline_s = self._clock.now_s() + decode.seconds_left
        generation = _Generation(prefill, decode, deadline_s)
        self._loop.call_soon_threadsafe(self._start, generation)

    # -- on the loop's thread -------------------------------------------------------------------

    def _start(self, generation: _Generation) -> None:
        decode_id = generation.decode.task_id
        if self._is_closed or decode_id not in self._outlet.open:
            return
        self._decode_of[generation.prefill.task_id] = decode_id
        self._running[decode_id] = self._loop.create_task(self._run(generation))

    async def _run(self, generation: _Generation) -> None:
        prefill, decode = generation.prefill, generation.decode
        try:
            await self._answer(generation)
        except RemoteProblem as problem:
            self._fail(generation, problem)
        except asyncio.CancelledError:
            pass  # told by what cancelled it
        except Exception as error:
            log.exception("engine %s: a generation broke an invariant", self.name)
            message = f"a generation broke an invariant: {type(error).__name__}"
            for task in (prefill, decode):
                self._outlet.tell(Failed(task.task_id, message, is_final=True))
        finally:
            self._running.pop(decode.task_id, None)
            self._decode_of.pop(prefill.task_id, None)

    async def _answer(self, generation: _Generation) -> None:
        prefill, decode = generation.prefill, generation.decode
        asked, wanted = prefill.payload, decode.payload
        assert isinstance(asked, PrefillPayload), "a generation without a prompt"
        assert isinstance(wanted, DecodePayload), "a generation without a decode"
        if wanted.pause != NO_PAUSE or wanted.continues:
            raise RemoteProblem(
                Trouble.REFUSED,
                "a remote model can't pause to retrieve and go on: name a model that runs in "
                "Heddle, or another workflow",
            )
        constraint = wanted.sampling.constraint
        for server in self._endpoints.all if constraint is not None else ():
            if constraint and (words := constraint_refusal(constraint, server.abilities)):
                raise RemoteProblem(Trouble.REFUSED, words)
        identity = decode.identity
        prompt = Prompt(
            asked.text,
            system=asked.system,
            tenant=asked.cache_salt,
            priority=identity.priority,
            turns=asked.turns,
            is_bare=asked.is_bare,
        )
        course = Course(
            Attempts(self._endpoints, self._clock, generation.deadline_s),
            prompt,
            wanted.sampling,
            lambda text: self._show(prefill.task_id, decode.task_id, text),
        )
        generated = await course.run()
        self._prefilled(prefill.task_id)
        self._outlet.tell(Done(decode.task_id, generated))

    def _show(self, prefill_id: int, decode_id: int, text: str) -> None:
        if prefill_id in self._outlet.open:
            self._prefilled(prefill_id)
        self._outlet.tell_text(decode_id, text)

    def _prefilled(self, prefill_id: int) -> None:
        handle = KvHandle(self.name, EPOCH, prefill_id)
        self._outlet.tell(Done(prefill_id, Prefilled(handle, 0, 0)))

    def _fail(self, generation: _Generation, problem: RemoteProblem) -> None:
        is_input = problem.is_callers
        for task in (generation.prefill, generation.decode):
            self._outlet.tell(Failed(task.task_id, problem.words, is_input, is_final=True))

    def _cancel(self, task_id: int) -> None:
        running = self._running.pop(self._decode_of.get(task_id, task_id), None)
        if running is not None:
            running.cancel()
        self._outlet.tell(Cancelled(task_id))
