"""The five workflows on LlamaIndex Workflows: an event for each step that comes next."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent

from benchmarks.contenders.framework_defaults import (
    TIMEOUT_S,
    WORKERS,
    WORKERS_LIFTED,
    Default,
    Defaults,
    blocking,
)
from benchmarks.contenders.hand_written import Client, Program
from benchmarks.contenders.workflow_steps import (
    RETRIEVE_ALL,
    RETRIEVE_ONE,
    STEPS,
    Notes,
    Step,
    gathered,
    notes_of,
)

DEFAULTS: Final = (Default.THREADS, Default.ONE_QUERY, Default.WORKERS, Default.TIMEOUT)


class Next(Event):
    """Step `number` is to run."""

    notes: Any
    number: int


class SearchOne(Event):
    """The text at `place` of those that step `number` searches for."""

    notes: Any
    number: int
    place: int


class FoundOne(SearchOne):
    """What was found for it."""

    docs: Any


def programs(defaults: Defaults) -> Mapping[str, Program]:
    """Return the workflows, with these defaults in force."""
    return {name: _program(steps, defaults) for name, steps in STEPS.items()}


def _program(steps: Sequence[Step], defaults: Defaults) -> Program:
    kind = _workflow(steps, defaults)
    flow = kind(timeout=TIMEOUT_S if Default.TIMEOUT in defaults else None)

    async def run(client: Client, query: str) -> str:
        answer: str = await flow.run(notes=notes_of(client, query))
        return answer

    return run


def _workflow(steps: Sequence[Step], defaults: Defaults) -> type[Workflow]:
    """Return a workflow class over a list of steps."""
    workers = WORKERS if Default.WORKERS in defaults else WORKERS_LIFTED
    runs = [_runner(one, defaults) for one in steps]
    run_one = _runner(RETRIEVE_ONE, defaults)
    splits = Default.ONE_QUERY in defaults

    class Steps(Workflow):
        """Runs step after step."""

        @step
        async def begin(self, event: StartEvent) -> Next:
            """Begin with the first step."""
            return Next(notes=event.notes, number=0)

        @step(num_workers=workers)
        async def go_on(self, context: Context, event: Next) -> Next | SearchOne | StopEvent | None:
            """Run one step, or split it into a search for each text."""
            notes, number = event.notes, event.number
            if splits and steps[number] is RETRIEVE_ALL:
                for place in range(len(notes.searches)):
                    context.send_event(SearchOne(notes=notes, number=number, place=place))
                return None
            return _after(steps, number, await runs[number](notes))

        @step(num_workers=workers)
        async def search(self, event: SearchOne) -> FoundOne:
            """Search for one text."""
            notes, place = event.notes, event.place
            found = await run_one(replace(notes, searches=(notes.searches[place],)))
            return FoundOne(notes=notes, number=event.number, place=place, docs=found.docs)

        @step
        async def join(self, context: Context, event: FoundOne) -> Next | StopEvent | None:
            """Go on once all texts were searched for."""
            ended = context.collect_events(event, [FoundOne] * len(event.notes.searches))
            if ended is None:
                return None
            docs = [one.docs for one in sorted(ended, key=lambda one: one.place)]
            return _after(steps, event.number, gathered(event.notes, docs))

    return Steps


def _after(steps: Sequence[Step], number: int, notes: Notes) -> Next | StopEvent:
    if number == len(steps) - 1:
        return StopEvent(result=notes.answer)
    return Next(notes=notes, number=number + 1)


def _runner(one: Step, defaults: Defaults) -> Callable[[Notes], Awaitable[Notes]]:
    if Default.THREADS not in defaults:
        return one.run
    loop, run = asyncio.get_running_loop(), blocking(one)

    async def on_a_thread(notes: Notes) -> Notes:
        """Run it as Workflows runs a step that is a plain function."""
        return await loop.run_in_executor(None, run, notes)

    return on_a_thread
