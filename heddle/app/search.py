"""A search without an answer: its options and its result."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypedDict

from heddle.app.request_options import PriorityWord
from heddle.core.errors import InputError
from heddle.core.passages import Passage
from heddle.core.tasks import Priority
from heddle.runtime.receipt import Receipt
from heddle.workflow.presets import search
from heddle.workflow.ragraph import DEFAULT_TOPK, TOPK_MAX
from heddle.workflow.workflow import Workflow

WORKFLOWS_KEPT: Final = 256


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found.

    Args:
        passages: the best first; where a model has read them, by their `score`.
        receipt: what was done for it.
    """

    passages: tuple[Passage, ...]
    receipt: Receipt


class SearchOptions(TypedDict, total=False):
    """The keywords of `search` and `submit_search`; each is explained at `Server.search`."""

    topk: int
    hybrid: bool
    rerank: bool
    where: Mapping[str, object] | None
    tenant: str
    deadline_s: float | None
    priority: Priority | PriorityWord


def search_workflow(
    topk: object = DEFAULT_TOPK, hybrid: object = False, rerank: object = False
) -> Workflow:
    """Return the workflow of a search; equal ones are one object, whose plans are kept.

    Raises:
        InputError: a value can't be used; the message names the option.
    """
    if isinstance(topk, bool) or not isinstance(topk, int) or not 1 <= topk <= TOPK_MAX:
        raise InputError(f"topk must be an integer from 1 to {TOPK_MAX}, got {topk!r:.40}")
    for name, value in (("hybrid", hybrid), ("rerank", rerank)):
        if not isinstance(value, bool):
            raise InputError(f"{name} must be True or False, got {value!r:.40}")
    return _kept(topk, bool(hybrid), bool(rerank))


def search_request(options: SearchOptions) -> tuple[Workflow, dict[str, Any]]:
    """Return the workflow of a search, and the options of its request.

    Raises:
        InputError: a value can't be used; the message names the option.
    """
    asked: dict[str, Any] = {**options}
    kinds = ("topk", "hybrid", "rerank")
    return search_workflow(**{name: asked.pop(name) for name in kinds if name in asked}), asked


@lru_cache(maxsize=WORKFLOWS_KEPT)
def _kept(topk: int, hybrid: bool, rerank: bool) -> Workflow:
    return search(topk, hybrid=hybrid, rerank=rerank).compile()
