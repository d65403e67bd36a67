"""HedraRAG's five workflows as Python functions; heddle's ready-made ones do the same."""

import sys

from heddle import Calls, Deferred, Server, as_workflow

ANSWER = "Answer the question from the passages. If they don't answer it, say so."
HYPOTHESIS = "Write a short passage that could answer the question."
SUBQUESTIONS = "List the sub-questions needed to answer the question, one JSON string a line."
SUMMARY = (
    "Write down what the passages say about the question, as short questions with their answers."
)
FROM_SUMMARY = "Answer the question from the summary. If it doesn't answer it, say so."


async def answer(rag: Calls, docs: Deferred, query: Deferred) -> Deferred:
    """Have the model answer from passages; a plain function that several workflows share."""
    prompt = f"{ANSWER}\n\n{docs}Question: {query}"
    return await rag.generate(prompt, name="answer", role="answer", max_tokens=256)


@as_workflow
async def oneshot(rag: Calls, query: Deferred) -> Deferred:
    """Retrieve once, answer once."""
    docs = await rag.retrieve(query, name="docs")
    return await answer(rag, docs, query)


@as_workflow
async def hyde(rag: Calls, query: Deferred) -> Deferred:
    """Search with a passage that the model imagines first."""
    prompt = f"{HYPOTHESIS}\n\nQuestion: {query}"
    passage = await rag.generate(prompt, name="hypothesis", role="hypothesis", max_tokens=128)
    docs = await rag.retrieve(f"{query} {passage}", name="docs")
    return await answer(rag, docs, query)


@as_workflow
async def multistep(rag: Calls, query: Deferred) -> Deferred:
    """Split the question; search for all its parts, each as soon as it is written."""
    prompt = f"{SUBQUESTIONS}\n\nQuestion: {query}"
    parts = await rag.generate(
        prompt, name="subquestions", role="subquestions", parse="lines", max_tokens=128
    )
    docs = await rag.retrieve(f"{query} {parts}", name="docs", collect=True)
    return await answer(rag, docs, query)


@as_workflow
async def irg(rag: Calls, query: Deferred) -> Deferred:
    """Search and answer twice, the second time with the first answer."""
    docs, text = True, ""
    for _ in range(2):
        docs = await rag.retrieve(f"{query} {text}", name="docs", collect=docs)
        text = await answer(rag, docs, query)
    return text


@as_workflow
async def recomp(rag: Calls, query: Deferred) -> Deferred:
    """Compress the passages to what they say about the question, then answer."""
    docs = await rag.retrieve(query, name="docs", topk=6)
    prompt = f"{SUMMARY}\n\n{docs}Question: {query}"
    summary = await rag.generate(prompt, name="summary", role="summary", max_tokens=256)
    prompt = f"{FROM_SUMMARY}\n\n## Summary\n{summary}\n\nQuestion: {query}"
    return await rag.generate(prompt, name="answer", role="answer_from_summary", max_tokens=256)


@as_workflow
async def careful(rag: Calls, query: Deferred) -> Deferred:
    """Search wider where the first answer holds no year: an `if` waits for the text."""
    docs = await rag.retrieve(query, topk=1, name="docs")
    text = await answer(rag, docs, query)
    if any(character.isdigit() for character in text):
        return text
    docs = await rag.retrieve(query, topk=3, name="docs", collect=docs)
    return await answer(rag, docs, query)


def main(corpus: str) -> None:
    """Answer a question by each of them."""
    with Server(generator="reader", index=corpus) as server:
        for workflow in (oneshot, hyde, multistep, irg, recomp, careful):
            found = server.app(workflow).invoke("Who started the Sawle Ferry?")
            print(f"{workflow.name}: {found.text}")


if __name__ == "__main__":
    main(sys.argv[1])
