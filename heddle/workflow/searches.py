"""A workflow as a request and a model change it: its searches, and how its answer is written."""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from heddle.core.errors import InputError
from heddle.costs.reranking import RankedSearch
from heddle.workflow.caching.answer_caching import NO_CACHE, Caching, cache_of, cached
from heddle.workflow.model_prompts import ModelPrompts, with_model_prompts
from heddle.workflow.nodes import Node, NodeId, RetrievalNode
from heddle.workflow.ragraph import TOPK_MAX
from heddle.workflow.workflow import Workflow
from heddle.workflow.writing import AS_IT_IS, Writing, check_writes, with_writing

KEPT_MAX: Final = 256


def with_searches(
    workflow: Workflow, *, topk: int | None = None, hybrid: bool | None = None
) -> Workflow:
    """Return a workflow whose searches all have these settings; None leaves them as they are.

    Args:
        workflow: stays as it is.
        topk: passages of each search.
        hybrid: whether each searches by words (BM25) as well as by meaning.

    Raises:
        InputError: topk is out of range, or the workflow has no search.
    """
    _check(topk, hybrid)
    changes: dict[str, Any] = {}
    if topk is not None:
        changes |= {"topk": topk, "allow_fewer": False, "may_rerank": False}
    if hybrid is not None:
        changes["hybrid"] = hybrid
    searches = {
        key: replace(node, **changes)
        for key, node in workflow.nodes.items()
        if isinstance(node, RetrievalNode)
    }
    if hybrid and any(node.within is not None for node in searches.values()):
        raise InputError(
            f"hybrid: workflow {workflow.name!r} searches the request's documents, by meaning "
            "alone: leave it out"
        )
    if changes and not searches:
        names = " and ".join(name for name in ("topk", "hybrid") if name in changes)
        raise InputError(f"{names}: workflow {workflow.name!r} retrieves nothing: leave it out")
    return replace(workflow, nodes={**workflow.nodes, **searches}) if changes else workflow


def with_reranking(workflow: Workflow) -> Workflow:
    """Return a workflow whose searches read more passages and keep fewer, where they may."""
    changes: dict[NodeId, Node] = {}
    for key, node in workflow.nodes.items():
        if isinstance(node, RetrievalNode) and node.may_rerank:
            ranked = RankedSearch.instead_of(node.topk)
            changes[key] = replace(node, topk=ranked.found, rerank=ranked.kept, may_rerank=False)
    return replace(workflow, nodes={**workflow.nodes, **changes}) if changes else workflow


@dataclass(slots=True)
class ChangedWorkflows:
    """Workflows as requests have changed them, kept because the plans of each are kept, too.

    Args:
        prompts: the model's own.
        writing: how answers are written where a request doesn't say.
        reranks: whether searches are reranked that leave it to the server.

    Mutates: `changed` keeps the newest `KEPT_MAX`. It may be called by any thread.
    """

    prompts: ModelPrompts = field(default_factory=dict)
    writing: Writing = AS_IT_IS
    reranks: bool = False

    _kept: OrderedDict[object, tuple[Workflow, Workflow]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def changed(
        self,
        workflow: Workflow,
        *,
        topk: int | None,
        hybrid: bool | None,
        writing: Writing = AS_IT_IS,
        may_rerank: bool = True,
        caching: Caching = NO_CACHE,
    ) -> Workflow:
        """Return the workflow with these searches and this writing, and the model's own prompts.

        `may_rerank` False: a search that leaves it to the server isn't reranked. `caching` says
        which answer cache it gets; a workflow function gets none.

        Raises:
            InputError: a value is out of range, or the workflow has nothing that it could change.
        """
        _check(topk, hybrid)
        if writing != AS_IT_IS:
            check_writes(workflow, writing)
        writing = writing.over(self.writing)
        reranks = self.reranks and may_rerank
        is_changed = (topk, hybrid, writing) != (None, None, AS_IT_IS)
        is_cached = (caching.is_on and caching.adds) or cache_of(workflow) is not None
        if not (is_changed or self.prompts or reranks or is_cached):
            return workflow
        # The original is kept beside the change, so no other workflow can get its id.
        key = id(workflow), topk, hybrid, writing, reranks, caching
        is_one_off = writing.seed is not None  # nearly every request has another
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][1]
        if workflow.function is not None:
            part = partial(self._changed_part, topk=topk, hybrid=hybrid, reranks=reranks)
            changed = replace(workflow, change=part)
        else:
            changed = with_searches(workflow, topk=topk, hybrid=hybrid)
            changed = with_reranking(changed) if reranks else changed
            changed = with_writing(with_model_prompts(changed, self.prompts), writing)
            changed = cached(changed, caching)
        if is_one_off:
            return replace(changed, is_kept=False)
        with self._lock:
            self._kept[key] = workflow, changed
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        return changed

    def _changed_part(
        self, part: Workflow, *, topk: int | None, hybrid: bool | None, reranks: bool
    ) -> Workflow:
        """Return a part of a function's workflow; which of its texts is the answer isn't known."""
        if any(isinstance(node, RetrievalNode) for node in part.nodes.values()):
            part = with_searches(part, topk=topk, hybrid=hybrid)
        part = with_reranking(part) if reranks else part
        return with_model_prompts(part, self.prompts)


def _check(topk: object, hybrid: object) -> None:
    is_count = isinstance(topk, int) and not isinstance(topk, bool) and 1 <= topk <= TOPK_MAX
    if topk is not None and not is_count:
        raise InputError(f"topk must be an integer from 1 to {TOPK_MAX}, got {topk!r:.40}")
    if hybrid is not None and not isinstance(hybrid, bool):
        raise InputError(f"hybrid must be True or False, got {hybrid!r:.40}")
