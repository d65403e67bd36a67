"""Haystack: four components with async runs in one Pipeline."""

from typing import Any

from haystack import Pipeline, component

from benchmarks.contenders.fake_engines import answer_prompt, embed, generate, measure, search

CONCURRENCY = 16  # the default of 4 would be a limit of the baseline's own


@component
class Imagine:
    """Writes the hypothesis."""

    @component.output_types(text=str)
    def run(self, query: str) -> dict[str, Any]:
        """Only the async form is used."""
        raise RuntimeError("use run_async")

    @component.output_types(text=str)
    async def run_async(self, query: str) -> dict[str, Any]:
        """Run the step."""
        return {"text": await generate(f"Write a passage for {query}")}


@component
class Embed:
    """Embeds a text."""

    @component.output_types(vector=list)
    def run(self, text: str) -> dict[str, Any]:
        """Only the async form is used."""
        raise RuntimeError("use run_async")

    @component.output_types(vector=list)
    async def run_async(self, text: str) -> dict[str, Any]:
        """Run the step."""
        return {"vector": await embed(text)}


@component
class Search:
    """Searches for a vector."""

    @component.output_types(docs=tuple)
    def run(self, vector: list) -> dict[str, Any]:
        """Only the async form is used."""
        raise RuntimeError("use run_async")

    @component.output_types(docs=tuple)
    async def run_async(self, vector: list) -> dict[str, Any]:
        """Run the step."""
        return {"docs": await search(vector)}


@component
class Answer:
    """Answers from the passages."""

    @component.output_types(answer=str)
    def run(self, query: str, docs: tuple) -> dict[str, Any]:
        """Only the async form is used."""
        raise RuntimeError("use run_async")

    @component.output_types(answer=str)
    async def run_async(self, query: str, docs: tuple) -> dict[str, Any]:
        """Run the step."""
        return {"answer": await generate(answer_prompt(query, docs))}


def build() -> Pipeline:
    """Return the connected pipeline."""
    pipeline = Pipeline()
    for name, part in (("i", Imagine()), ("e", Embed()), ("s", Search()), ("a", Answer())):
        pipeline.add_component(name, part)
    pipeline.connect("i.text", "e.text")
    pipeline.connect("e.vector", "s.vector")
    pipeline.connect("s.docs", "a.docs")
    return pipeline


if __name__ == "__main__":
    hyde = build()

    async def ask(query: str) -> object:
        """Run one request."""
        data = {"i": {"query": query}, "a": {"query": query}}
        return await hyde.run_async(data, concurrency_limit=CONCURRENCY)

    measure(ask)
