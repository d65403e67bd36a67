"""LlamaIndex Workflows: four steps joined by typed events, no timeout."""

from workflows import Workflow, step
from workflows.events import Event, StartEvent, StopEvent

from benchmarks.contenders.fake_engines import answer_prompt, embed, generate, measure, search

WORKERS = 64  # the default of 4 would be a limit of the baseline's own


class Imagined(Event):
    """A hypothesis is there."""

    query: str
    hypothesis: str


class Embedded(Event):
    """Its vector is there."""

    query: str
    vector: list


class Found(Event):
    """The passages are there."""

    query: str
    docs: tuple


class Hyde(Workflow):
    """The four steps."""

    @step(num_workers=WORKERS)
    async def imagine(self, event: StartEvent) -> Imagined:
        """Write the hypothesis."""
        text = await generate(f"Write a passage for {event.query}")
        return Imagined(query=event.query, hypothesis=text)

    @step(num_workers=WORKERS)
    async def embed_it(self, event: Imagined) -> Embedded:
        """Embed it."""
        return Embedded(query=event.query, vector=await embed(event.hypothesis))

    @step(num_workers=WORKERS)
    async def search_it(self, event: Embedded) -> Found:
        """Search."""
        return Found(query=event.query, docs=await search(event.vector))

    @step(num_workers=WORKERS)
    async def answer(self, event: Found) -> StopEvent:
        """Answer."""
        return StopEvent(result=await generate(answer_prompt(event.query, event.docs)))


if __name__ == "__main__":
    workflow = Hyde(timeout=None)

    async def ask(query: str) -> object:
        """Run one request."""
        return await workflow.run(query=query)

    measure(ask)
