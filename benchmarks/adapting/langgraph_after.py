"""A LangGraph program: imagine an answer, search, answer, check, and search for a sub-question."""

import operator
from typing import Annotated, TypedDict

from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

import heddle
from benchmarks.adapting.faiss_vectors import FaissVectors
from benchmarks.adapting.setting import (
    ANSWER,
    ANSWER_TOKENS,
    IMAGINE,
    PASSAGE_TOKENS,
    REWRITE,
    TOPK,
    TRIES_MAX,
    UNKNOWN,
    Setting,
    note,
)


class State(TypedDict, total=False):
    """What the nodes hand on."""

    question: str
    query: str
    documents: Annotated[list[Document], operator.add]
    answer: str
    tries: int


def graph(setting: Setting) -> CompiledStateGraph:
    """Return the compiled graph."""
    model = ChatOpenAI(model=setting.model, base_url=setting.llm_url, api_key="any", temperature=0)
    retriever = FaissVectors(setting).as_retriever(search_kwargs={"k": TOPK})
    parser = StrOutputParser()
    short = model.bind(max_tokens=ANSWER_TOKENS)
    imagine_chain = ChatPromptTemplate.from_template(IMAGINE) | short | parser
    answer_chain = ChatPromptTemplate.from_template(ANSWER) | short | parser
    passage = model.bind(max_tokens=PASSAGE_TOKENS)
    rewrite_chain = ChatPromptTemplate.from_template(REWRITE) | passage | parser

    def imagine(state: State) -> State:
        imagined = imagine_chain.invoke({"question": state["question"]})
        return {"query": f"{state['question']} {imagined}"}

    def retrieve(state: State) -> State:
        return {"documents": retriever.invoke(state["query"])}

    def generate(state: State) -> State:
        newest = state["documents"][-2 * TOPK :]
        notes = "".join(note(one.metadata["title"], one.page_content) for one in newest)
        answer = answer_chain.invoke({"notes": notes, "question": state["question"]})
        return {"answer": answer, "tries": state.get("tries", 0) + 1}

    def check(state: State) -> State:
        stands = any(state["answer"] in one.page_content for one in state["documents"])
        return {} if stands else {"answer": UNKNOWN}

    def rewrite(state: State) -> State:
        lines = rewrite_chain.invoke({"question": state["question"]}).splitlines()
        return {"query": lines[0] if lines and lines[0] else state["question"]}

    def is_found(state: State) -> str:
        return "rewrite" if state["answer"] == UNKNOWN and state["tries"] < TRIES_MAX else END

    builder = StateGraph(State)
    for node in (imagine, retrieve, generate, check, rewrite):
        builder.add_node(node.__name__, node)
    builder.add_edge(START, "imagine")
    builder.add_edge("imagine", "retrieve")
    builder.add_edge("retrieve", "generate")
    builder.add_edge("generate", "check")
    builder.add_conditional_edges("check", is_found, ["rewrite", END])
    builder.add_edge("rewrite", "retrieve")
    app = builder.compile(checkpointer=InMemorySaver())
    return heddle.wrap(app, setting.heddle_url, model=True, retriever=True)
