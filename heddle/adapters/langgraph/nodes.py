"""Which nodes of a graph call the engine, and with what."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.documents.compressor import BaseDocumentCompressor
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseLanguageModel
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.prompts import BasePromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from langgraph.pregel import Pregel

from heddle.adapters.calls import KINDS
from heddle.adapters.engine import Engine
from heddle.adapters.langchain.chat import ChatHeddle
from heddle.adapters.langchain.component import Component
from heddle.adapters.langchain.embeddings import HeddleEmbeddings
from heddle.adapters.langchain.reranker import HeddleReranker
from heddle.adapters.langchain.retriever import HeddleRetriever
from heddle.adapters.langgraph.contents import Contents, contents_of

START: Final = "__start__"
PROMPT: Final = "prompt"
# Components of others, in words; the first that fits.
FOREIGN: Final[tuple[tuple[type, str], ...]] = (
    (BaseChatModel, "a chat model that is not Heddle's"),
    (BaseLanguageModel, "a model that is not Heddle's"),
    (BaseRetriever, "a retriever that is not Heddle's"),
    (VectorStore, "a vector store"),
    (Embeddings, "embeddings that are not Heddle's"),
    (BaseDocumentCompressor, "a reranker that is not Heddle's"),
)


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node of a graph, or of a graph within it.

    Args:
        name: behind the names of the graphs that it is in, as in "research.answer".
        contents: its components, with those of the conditions on the edges that leave it.
    """

    name: str
    contents: Contents

    @property
    def engines(self) -> dict[str, Engine]:
        """The engines of its own components of Heddle, by component."""
        own = self.contents.of(Component)
        return {f"{self.name}.{name}": one.heddle for name, one in own}

    def foreign(self, *kinds: type) -> Iterator[Any]:
        """Yield its components of some classes that are not Heddle's."""
        for _, one in self.contents.of(*kinds):
            if not isinstance(one, Component):
                yield one

    def kinds(self, is_replaced: Callable[[object], bool]) -> tuple[str, ...]:
        """Return the primitives that it calls.

        Args:
            is_replaced: whether a component of another has Heddle's answer in its place.
        """
        found: dict[str, None] = {}
        for _, one in self.contents.found:
            found.update(dict.fromkeys(_kinds(one, is_replaced)))
        return tuple(found)

    def words(self) -> str:
        """Return its components, in words."""
        listed = [f"{name} is {_word(one)}" for name, one in self.contents.found]
        words = " and ".join(listed) or "plain Python"
        return f"{words} (there was more to look through)" if self.contents.is_cut else words


def nodes_of(graph: Pregel, prefix: str = "") -> Iterator[GraphNode]:
    """Yield the nodes of a graph, and those of the graphs that are its nodes."""
    branches: Mapping[str, Mapping[str, Any]] = getattr(
        getattr(graph, "builder", None), "branches", {}
    )
    for name, node in graph.nodes.items():
        if name == START:
            continue
        if isinstance(node.bound, Pregel):
            yield from nodes_of(node.bound, f"{prefix}{name}.")
            continue
        paths = [branch.path for branch in branches.get(name, {}).values()]
        contents = contents_of(node.bound, *paths)
        yield GraphNode(prefix + name, contents)
        for _, inner in contents.of(Pregel):  # a graph that a node's function calls
            yield from nodes_of(inner, f"{prefix}{name}.")


def _kinds(one: object, is_replaced: Callable[[object], bool]) -> tuple[str, ...]:
    if isinstance(one, BasePromptTemplate):
        return (PROMPT,)
    if isinstance(one, ChatHeddle):
        return KINDS["chat"]
    if isinstance(one, HeddleRetriever):
        return (*KINDS["search"], *(KINDS["rerank"] if one.rerank else ()))
    if isinstance(one, HeddleReranker):
        return KINDS["rerank"]
    if isinstance(one, HeddleEmbeddings):
        return KINDS["embed"]
    if is_replaced(one):
        return KINDS["chat"] if isinstance(one, BaseChatModel) else KINDS["search"]
    return ()


def _word(one: object) -> str:
    if isinstance(one, Component):
        return f"Heddle's {type(one).__name__}"
    if isinstance(one, BasePromptTemplate):
        return "a prompt"
    if isinstance(one, Pregel):
        return "a graph"
    words = next((words for kind, words in FOREIGN if isinstance(one, kind)), "unknown")
    return f"{words} ({type(one).__name__})"
