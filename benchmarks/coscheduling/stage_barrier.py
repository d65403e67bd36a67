"""A driver that serves stage by stage: all pending generations, then all pending searches.

This is how HedraRAG describes and runs its baseline, and FlashRAG's pipelines work (it is neither's
code). Requests that came meanwhile join at the next stage.

Source: HedraRAG §6.1.
"""

import asyncio
from dataclasses import dataclass, field

from benchmarks.contenders.port_client import AskClient, PortClient
from benchmarks.contenders.workflow_steps import STEPS, Notes, Step, StepKind, notes_of
from benchmarks.coscheduling.asks import Ask
from benchmarks.coscheduling.generations import Generations
from benchmarks.coscheduling.lane_set import LaneSet


@dataclass(slots=True, eq=False)
class Pending:
    """A request under way. Mutates: `notes` and `steps` as its steps run."""

    notes: Notes
    steps: list[Step]
    answered: "asyncio.Future[str]"

    async def advance(self) -> None:
        """Run the next step; the last one, or an error, ends the request."""
        try:
            self.notes = await self.steps.pop(0).run(self.notes)
        except Exception as error:
            self.steps.clear()
            if not self.answered.done():  # its caller may have gone
                self.answered.set_exception(error)
        if not self.steps and not self.answered.done():
            self.answered.set_result(self.notes.answer)


@dataclass(slots=True)
class StageBarrier:
    """The stages over all requests that are pending."""

    lanes: LaneSet
    client: PortClient
    _pending: list[Pending] = field(default_factory=list)
    _running: "asyncio.Task[None] | None" = None

    @classmethod
    def on(cls, lanes: LaneSet, salt: str, generations: Generations) -> "StageBarrier":
        """Return a driver whose prompts share a prefix cache under `salt`."""
        return cls(lanes, lanes.client(PortClient, salt, generations))

    async def answer(self, ask: Ask) -> str:
        """Answer one."""
        notes = notes_of(AskClient(self.client, ask.nprobe), ask.question)
        answered: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._pending.append(Pending(notes, list(STEPS[ask.workflow]), answered))
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        return await answered

    async def end(self) -> None:
        """Leave the lanes to the next driver."""
        await self.lanes.drain()

    async def _run(self) -> None:
        while self._pending:
            for kind in StepKind:
                stage = [one for one in self._pending if one.steps and one.steps[0].kind is kind]
                await asyncio.gather(*(one.advance() for one in stage))
            self._pending = [one for one in self._pending if one.steps]
