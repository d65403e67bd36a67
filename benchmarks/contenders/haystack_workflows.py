"""The five workflows on Haystack: a component for each step, in one Pipeline that runs async."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from haystack import Pipeline, component

from benchmarks.contenders.framework_defaults import (
    WORKERS,
    WORKERS_LIFTED,
    Default,
    Defaults,
    blocking,
)
from benchmarks.contenders.hand_written import Client, Program
from benchmarks.contenders.workflow_steps import (
    RETRIEVE_ALL,
    STEPS,
    TOPK,
    Notes,
    Step,
    StepKind,
    gathered,
    notes_of,
)

DEFAULTS: Final = (Default.THREADS, Default.ONE_QUERY, Default.WORKERS)


@component
class AsyncStep:
    """A step whose engines are awaited."""

    def __init__(self, step: Step) -> None:
        self._step = step

    @component.output_types(notes=Notes)
    def run(self, notes: Notes) -> dict[str, Any]:
        """Only the async form is used."""
        raise RuntimeError("use run_async")

    @component.output_types(notes=Notes)
    async def run_async(self, notes: Notes) -> dict[str, Any]:
        """Run the step."""
        return {"notes": await self._step.run(notes)}


@component
class PlainStep:
    """A step that waits for its engines, as most of Haystack's integrations do."""

    def __init__(self, step: Step) -> None:
        self._run = blocking(step)

    @component.output_types(notes=Notes)
    def run(self, notes: Notes) -> dict[str, Any]:
        """Run the step."""
        return {"notes": self._run(notes)}


def programs(defaults: Defaults) -> Mapping[str, Program]:
    """Return the workflows, with these defaults in force."""
    return {name: _program(steps, defaults) for name, steps in STEPS.items()}


def _program(steps: Sequence[Step], defaults: Defaults) -> Program:
    pipeline = Pipeline()
    for step in steps:
        if step is RETRIEVE_ALL and Default.ONE_QUERY in defaults:
            step = ONE_AFTER_ANOTHER
        part = PlainStep(step) if Default.THREADS in defaults else AsyncStep(step)
        pipeline.add_component(step.name, part)
    for source, target in itertools.pairwise(step.name for step in steps):
        pipeline.connect(f"{source}.notes", f"{target}.notes")
    first, last = steps[0].name, steps[-1].name
    limit = WORKERS if Default.WORKERS in defaults else WORKERS_LIFTED

    async def run(client: Client, query: str) -> str:
        data = {first: {"notes": notes_of(client, query)}}
        ended = await pipeline.run_async(data, concurrency_limit=limit)
        notes: Notes = ended[last]["notes"]
        return notes.answer

    return run


async def _one_after_another(notes: Notes) -> Notes:
    """Search for each text; a pipeline has no branch whose number is known at run time only."""
    return gathered(notes, [await notes.client.retrieve(text, TOPK) for text in notes.searches])


ONE_AFTER_ANOTHER: Final = Step(RETRIEVE_ALL.name, StepKind.RETRIEVE, _one_after_another)
