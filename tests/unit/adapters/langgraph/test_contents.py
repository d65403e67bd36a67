"""What a node holds is found in closures, globals, methods and helpers, and bounded."""

from functools import partial
from typing import Any

import pytest

pytest.importorskip("langgraph", reason="LangGraph is not installed: make setup-all")

from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough

from heddle.adapters.langchain import HeddleRetriever
from heddle.adapters.langgraph.contents import OBJECTS_MAX, contents_of

MODEL = FakeListChatModel(responses=["x"])
RETRIEVER = HeddleRetriever(engine="http://127.0.0.1:1")
PROMPT = ChatPromptTemplate.from_template("{context} {question}")


class Agent:
    """A program as a class: its nodes are methods."""

    def __init__(self) -> None:
        self.model = MODEL
        self.other = RETRIEVER

    def answer(self, state: dict) -> dict:
        return {"answer": self._written(state["question"])}

    def _written(self, question: str) -> str:
        return str(self.model.invoke(question).content)

    def __call__(self, state: dict) -> dict:
        return self.answer(state)


def _ask(question: str) -> str:
    return str(MODEL.invoke(question).content)


def by_helper(state: dict) -> dict:
    return {"answer": _ask(state["question"])}


def with_default(state: dict, retriever: Any = RETRIEVER) -> dict:
    return {"documents": retriever.invoke(state["question"])}


def nested(state: dict) -> dict:
    def inner() -> str:
        return str(MODEL.invoke(state["question"]).content)

    return {"answer": inner()}


def chain(model: Any) -> Any:
    context = RETRIEVER | (lambda found: "".join(d.page_content for d in found))
    parts = RunnableParallel(context=context, question=RunnablePassthrough())
    return parts | PROMPT | model.bind(stop=["."]).with_fallbacks([MODEL]) | RunnableLambda(str)


@pytest.mark.parametrize(
    ("node", "names"),
    [
        (by_helper, ["MODEL"]),
        (with_default, ["HeddleRetriever"]),
        (nested, ["MODEL"]),
        (Agent().answer, ["model"]),
        (Agent(), ["model", "other"]),
        (partial(with_default, retriever=RETRIEVER), ["HeddleRetriever"]),
        (lambda state: state, []),
        (len, []),
    ],
)
def test_where_a_node_may_hold_its_components(node: Any, names: list[str]):
    assert sorted(name for name, _ in contents_of(node).found) == names


def test_a_variable_that_has_no_value_yet_is_no_part():
    def node(state: dict) -> dict:
        return later(MODEL.invoke(state["question"]))

    assert [name for name, _ in contents_of(node).found] == ["MODEL"]
    later = str
    assert "x" in node({"question": "Who?"})


def test_the_parts_of_a_chain():
    kinds = {type(one) for _, one in contents_of(chain(FakeListChatModel(responses=[]))).found}
    assert kinds == {HeddleRetriever, ChatPromptTemplate, FakeListChatModel}


def test_a_node_that_holds_too_much_is_looked_through_in_part():
    deep: Any = [MODEL]
    for _ in range(20):
        deep = [deep]
    assert contents_of(deep).is_cut
    assert contents_of(*([n] for n in range(OBJECTS_MAX + 1))).is_cut
    assert not contents_of(*([n] for n in range(100))).is_cut
