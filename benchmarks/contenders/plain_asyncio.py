"""Four awaits, no orchestrator: the floor."""

from benchmarks.contenders.fake_engines import answer_prompt, embed, generate, measure, search


async def ask(query: str) -> str:
    """Run one HyDE request."""
    hypothesis = await generate(f"Write a passage for {query}")
    docs = await search(await embed(hypothesis))
    return await generate(answer_prompt(query, docs))


if __name__ == "__main__":
    measure(ask)
