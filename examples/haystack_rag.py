"""Answer from notes with a Haystack pipeline of a joiner and a router: `haystack_rag.py URL`.

URL is a server's that has indexed examples/notes: `heddle serve corpus --model reader`. The program
is Haystack's own; the two lines marked "changed" have Heddle search and write in its place.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")

from haystack import Document, Pipeline
from haystack.components.builders import ChatPromptBuilder
from haystack.components.embedders import OpenAIDocumentEmbedder, OpenAITextEmbedder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.components.joiners import DocumentJoiner
from haystack.components.retrievers.in_memory import (
    InMemoryBM25Retriever,
    InMemoryEmbeddingRetriever,
)
from haystack.components.routers import ConditionalRouter
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.utils import Secret

import heddle  # changed

NOTES = Path(__file__).with_name("notes")
PROMPT = """Answer the question from the notes.

{% for document in documents %}## {{ document.meta.title }}
{{ document.content }}

{% endfor %}Question: {{ question }}"""
STANDS_THERE = "{{ replies[0].text in documents | map(attribute='content') | join(' ') }}"


def notes() -> list[Document]:
    """Return the notes, each with its file's name as its title."""
    files = sorted(NOTES.glob("*.txt"))
    texts = [(path.stem, path.read_text(encoding="utf-8")) for path in files]
    return [Document(content=text, meta={"title": title}) for title, text in texts]


def build(url: str) -> Pipeline:
    """Return the pipeline: two searches, an answer, and a look whether the notes hold it."""
    at = {"api_base_url": f"{url}/v1", "api_key": Secret.from_token("any")}
    embedder = OpenAIDocumentEmbedder(model="any", progress_bar=False, **at)
    store = InMemoryDocumentStore()
    store.write_documents(embedder.run(notes())["documents"])
    stands_there = {"output": "{{ replies[0].text }}", "output_type": str}
    routes = [
        {"condition": STANDS_THERE, "output_name": "quoted", **stands_there},
        {"condition": "{{ True }}", "output_name": "unsure", **stands_there},
    ]

    pipeline = Pipeline()
    pipeline.add_component("by_words", InMemoryBM25Retriever(store, top_k=2))
    pipeline.add_component("embedder", OpenAITextEmbedder(model="any", **at))
    pipeline.add_component("by_meaning", InMemoryEmbeddingRetriever(store, top_k=2))
    pipeline.add_component("joiner", DocumentJoiner("reciprocal_rank_fusion", top_k=2))
    prompt = ChatPromptBuilder([ChatMessage.from_user(PROMPT)], required_variables="*")
    pipeline.add_component("prompt", prompt)
    writing = {"temperature": 0, "max_tokens": 32}
    model = OpenAIChatGenerator(model="reader", generation_kwargs=writing, **at)
    pipeline.add_component("model", model)
    pipeline.add_component("router", ConditionalRouter(routes))
    pipeline.connect("embedder.embedding", "by_meaning.query_embedding")
    pipeline.connect("by_words.documents", "joiner.documents")
    pipeline.connect("by_meaning.documents", "joiner.documents")
    pipeline.connect("joiner.documents", "prompt.documents")
    pipeline.connect("joiner.documents", "router.documents")
    pipeline.connect("prompt.prompt", "model.messages")
    pipeline.connect("model.replies", "router.replies")
    return pipeline


def main(url: str) -> None:
    """Print the answers to two questions."""
    pipeline = build(url)
    pipeline = heddle.wrap(pipeline, url, model=True, retriever=True, embedder=True)  # changed
    for question in ("Who opened the Harbour Library?", "Who founded Oak Mill?"):
        asked = {"by_words": {"query": question}, "embedder": {"text": question}}
        found = pipeline.run({**asked, "prompt": {"question": question}})["router"]
        print(found.get("quoted") or f"unsure: {found['unsure']}")


if __name__ == "__main__":
    main(sys.argv[1])
