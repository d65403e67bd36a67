"""A LangGraph program on Heddle: `langgraph_rag.py URL`, the address of a `heddle serve`.

Start it with `heddle serve corpus --model reader`. Two lines differ from the program without
`heddle.wrap`; each is marked. Without them the program runs as well, on the same server by OpenAI's
API: then its search is its own, and Heddle doesn't know which calls belong together.
"""

import sys
from pathlib import Path
from typing import TypedDict

from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

import heddle  # changed: new

NOTES = Path(__file__).with_name("notes")
TRIES_MAX = 2
ANSWER = "Answer the question from the notes.\n\n{notes}Question: {question}"
REWRITE = "List the sub-questions needed to answer the question, one JSON string a line.\n\n"


class State(TypedDict, total=False):
    """What the nodes hand on."""

    question: str
    query: str
    documents: list[Document]
    answer: str
    tries: int


def program(url: str) -> CompiledStateGraph:
    """Return the graph: search, answer, check the answer, and search for something else."""
    there = {"base_url": f"{url}/v1", "api_key": "any"}
    model = ChatOpenAI(model="reader", temperature=0, **there)
    embeddings = OpenAIEmbeddings(model="any", check_embedding_ctx_length=False, **there)
    store = InMemoryVectorStore(embeddings)
    texts = [path.read_text(encoding="utf-8") for path in sorted(NOTES.glob("*.txt"))]
    store.add_texts([text.partition("\n\n")[2] for text in texts])
    retriever = store.as_retriever(search_kwargs={"k": 1})
    answer = ChatPromptTemplate.from_template(ANSWER) | model | StrOutputParser()
    rewritten = ChatPromptTemplate.from_template(REWRITE + "Question: {question}") | model

    def retrieve(state: State) -> State:
        found = retriever.invoke(state.get("query", state["question"]))
        return {"documents": [*state.get("documents", []), *found]}

    def generate(state: State) -> State:
        notes = "".join(f"## Note\n{one.page_content}\n\n" for one in state["documents"])
        return {"answer": answer.invoke({"notes": notes, "question": state["question"]})}

    def check(state: State) -> State:
        return {"tries": state.get("tries", 0) + 1}

    def rewrite(state: State) -> State:
        lines = rewritten.invoke({"question": state["question"]}).content.splitlines()
        return {"query": lines[0].strip('"') if lines else state["question"]}

    def is_found(state: State) -> str:
        stands = any(state["answer"] in one.page_content for one in state["documents"])
        return END if stands or state["tries"] >= TRIES_MAX else "rewrite"

    builder = StateGraph(State)
    for node in (retrieve, generate, check, rewrite):
        builder.add_node(node.__name__, node)
    builder.add_edge(START, "retrieve")
    builder.add_edge("retrieve", "generate")
    builder.add_edge("generate", "check")
    builder.add_conditional_edges("check", is_found, ["rewrite", END])
    builder.add_edge("rewrite", "retrieve")
    graph = builder.compile(checkpointer=InMemorySaver())
    return heddle.wrap(graph, url, model=True, retriever=True)  # changed: was `return graph`


def main(url: str) -> None:
    """Stream the answers of three questions, then what each thread's state ends with."""
    graph = program(url)
    questions = (
        "Who founded Oak Mill?",
        "When was the Harbour Library opened?",
        "Who is the mayor?",
    )
    for number, question in enumerate(questions):
        thread = {"configurable": {"thread_id": str(number)}}
        print(question, end=" ")
        for mode, part in graph.stream(
            {"question": question}, thread, stream_mode=["messages", "updates"]
        ):
            if mode == "messages" and part[1]["langgraph_node"] == "generate":
                print(part[0].content, end="")
            elif mode == "updates" and "check" in part:
                print(end="; ")
        state = graph.get_state(thread).values
        print(f"tries: {state['tries']}")
    for receipt in getattr(graph, "receipts", ()):
        nodes = ", ".join(receipt.primitives_seen)
        print(f"{receipt.calls_count} calls of one run, from {nodes}")


if __name__ == "__main__":
    main(sys.argv[1])
