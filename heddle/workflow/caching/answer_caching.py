"""A workflow with an answer cache in front of it, or without the one that it has. (ADR 44)"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from heddle.core.errors import WorkflowError
from heddle.workflow.nodes import (
    AnswerCacheNode,
    DocumentsNode,
    ExtractionNode,
    GenerationNode,
    NodeId,
    RetrievalNode,
    ToolNode,
)
from heddle.workflow.workflow import Branch, State, Workflow

NODE: Final = "answer_cache"
SLOT: Final = "answer_cached"


@dataclass(frozen=True, slots=True)
class Caching:
    """Whether a request's answer may be taken from a cache.

    Args:
        is_on: whether there is any lookup, also of a cache that the workflow's author placed.
        adds: whether workflows get a cache that have none.
        similarity: the least cosine of two questions, for the caches that are added; None = only
            equal texts count.
        allows_similar: whether an answer to a similar question may be taken at all.
    """

    is_on: bool = True
    adds: bool = False
    similarity: float | None = None
    allows_similar: bool = False


NO_CACHE: Final = Caching(is_on=False)


@dataclass(frozen=True, slots=True)
class UnlessCached:
    """The callable edge behind a Lookup: to `entries` where no answer was found, else to END."""

    slot: str
    entries: tuple[NodeId, ...]

    def __call__(self, state: State) -> tuple[NodeId, ...]:
        """Return the nodes to go on with."""
        return () if state[self.slot] else self.entries


def cached(workflow: Workflow, caching: Caching) -> Workflow:
    """Return a workflow with the cache that a request may use, or without any.

    The cache that its author placed stays where the request allows it. One is added only to a
    workflow that answers from passages.
    """
    own = cache_of(workflow)
    bare = without_cache(workflow)
    may_add = caching.adds and _answers(bare)
    if not caching.is_on or (own is None and not may_add):
        return bare
    node = own or AnswerCacheNode(_free(NODE, bare.nodes), SLOT, caching.similarity)
    similarity = node.similarity if caching.allows_similar else None
    output = _free(node.output, (*bare.writers, *bare.inputs))
    return with_cache(bare, replace(node, output=output, similarity=similarity))


def with_cache(workflow: Workflow, node: AnswerCacheNode) -> Workflow:
    """Return a workflow that begins with a cache; the cache says why no answer is kept, if so."""
    node = replace(node, unfit=_unfit(workflow))
    branch = Branch(node.id, UnlessCached(node.output, workflow.entries), workflow.entries)
    return replace(
        workflow,
        nodes={node.id: node, **workflow.nodes},
        branches=(branch, *workflow.branches),
        entries=(node.id,),
        writers={node.output: node.id, **workflow.writers},
        max_steps=workflow.max_steps + 1,
    )


def without_cache(workflow: Workflow) -> Workflow:
    """Return a workflow without its cache; one without a cache stays as it is."""
    node = cache_of(workflow)
    if node is None:
        return workflow
    return replace(
        workflow,
        nodes={key: other for key, other in workflow.nodes.items() if key != node.id},
        branches=tuple(branch for branch in workflow.branches if branch.source != node.id),
        entries=workflow.branch_of[node.id].targets,
        writers={slot: key for slot, key in workflow.writers.items() if key != node.id},
        max_steps=workflow.max_steps - 1,
    )


def cache_of(workflow: Workflow) -> AnswerCacheNode | None:
    """Return a workflow's answer cache, None where it has none."""
    found = (node for node in workflow.nodes.values() if isinstance(node, AnswerCacheNode))
    return next(found, None)


def check_placed(workflow: Workflow) -> None:
    """Refuse a cache whose answers could never be void.

    Raises:
        WorkflowError: the workflow has a tool, or answers from nothing that it retrieves.
    """
    where = f"workflow {workflow.name!r}, add_answer_cache"
    tool = next((n for n in workflow.nodes.values() if isinstance(n, ToolNode)), None)
    if tool is not None:
        raise WorkflowError(
            f"{where}: node {tool.id!r} calls a function, and no answer cache knows when it would "
            "return something else: leave the cache out"
        )
    if not _answers(workflow):
        raise WorkflowError(
            f"{where}: a cache keeps answers that rest on what is retrieved: add a retrieval and "
            "a generation or an extraction, or leave the cache out"
        )


def _answers(workflow: Workflow) -> bool:
    """Whether a graph retrieves, and then writes or quotes."""
    nodes = workflow.nodes.values()
    writes = any(isinstance(node, GenerationNode | ExtractionNode) for node in nodes)
    return writes and any(isinstance(node, RetrievalNode) for node in nodes)


def _unfit(workflow: Workflow) -> str:
    """Return why no answer of a workflow is kept; "" = they are."""
    for node in workflow.nodes.values():
        if isinstance(node, GenerationNode) and node.sampling.temperature > 0:
            drawn = f"draws its tokens (temperature {node.sampling.temperature:g})"
            return f"node {node.id!r} {drawn}"
        if isinstance(node, ToolNode):
            return f"node {node.id!r} calls a function"
        if isinstance(node, DocumentsNode):
            return f"node {node.id!r} reads the request's own documents"
    return ""


def _free(name: str, taken: Iterable[NodeId]) -> str:
    names = {str(other) for other in taken}
    while name in names:
        name += "_"
    return name
