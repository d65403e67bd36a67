"""Texts that come with a request, ranked by a model: the options, the checks and the result."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, TypedDict

from heddle.app.models.remote_name import is_remote
from heddle.app.request_options import PriorityWord
from heddle.app.server_config import ServerConfig
from heddle.core.errors import InputError
from heddle.core.passages import OWN_CHUNK_MIN, Passage
from heddle.core.tasks import Priority
from heddle.core.texts.text_check import check_unicode
from heddle.runtime.events import Answer
from heddle.runtime.receipt import Receipt
from heddle.runtime.values import as_passages
from heddle.workflow.compile import Draft, compile_draft
from heddle.workflow.nodes import RankingNode
from heddle.workflow.template import Slot, Template
from heddle.workflow.workflow import Workflow

TEXTS_MAX: Final = 1_000
TEXTS_CHARS_MAX: Final = 1_000_000
QUERY: Final = "query"
PASSAGES: Final = "passages"
RANKED: Final = "ranked"


class RerankOptions(TypedDict, total=False):
    """The keywords of `rerank` and `submit_rerank`; each is explained at `RequestOptions`."""

    tenant: str
    deadline_s: float | None
    priority: Priority | PriorityWord


@dataclass(frozen=True, slots=True)
class RankedText:
    """A text in a ranking.

    Args:
        index: its place among the texts that were given.
        text: the text.
        score: what the model gives it, on the model's own scale; a higher one answers better.
        relevance: the score on a scale from 0 to 1: the sigmoid of a score of a model here, and
            the score itself where another server's model has given it.
    """

    index: int
    text: str
    score: float
    relevance: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """All texts, the best first, and what was done for it."""

    texts: tuple[RankedText, ...]
    receipt: Receipt


@cache
def ranking_workflow() -> Workflow:
    """Return the workflow that ranks; its inputs are `query` and `passages`."""
    node = RankingNode("rank", Template((Slot(QUERY),)), PASSAGES, RANKED)
    inputs = frozenset({QUERY, PASSAGES})
    return compile_draft(Draft("rerank", {node.id: node}, (), (), (), (), inputs, max_steps=1))


def ranking_inputs(query: object, texts: object) -> dict[str, object]:
    """Return the inputs of the ranking workflow.

    Raises:
        InputError: there is nothing to rank or to rank by, or too much of it; the message names
            the field.
    """
    if not isinstance(query, str) or not query.strip():
        raise InputError(f"query must be a text that is not empty, got {query!r:.40}")
    if isinstance(texts, str) or not isinstance(texts, Sequence) or not texts:
        raise InputError("documents must be a list of at least one text")
    if len(texts) > TEXTS_MAX:
        raise InputError(f"documents: {len(texts)} are more than {TEXTS_MAX}: send several lists")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"documents[{number}] must be a text, got {type(text).__name__}")
        check_unicode(text, f"documents[{number}]")
    chars = sum(map(len, texts))
    if chars > TEXTS_CHARS_MAX:
        raise InputError(
            f"documents hold {chars:,} characters, more than {TEXTS_CHARS_MAX:,}: send less at once"
        )
    passages = tuple(
        Passage(OWN_CHUNK_MIN + number, f"documents[{number}]", "", text)
        for number, text in enumerate(texts)
    )
    return {QUERY: query, PASSAGES: passages}


def ranking_of(answer: Answer, config: ServerConfig) -> Ranking:
    """Return the ranking that the answer of a ranking request holds."""
    passages = as_passages(answer.slots[RANKED])
    is_scaled = is_remote(config.reranker)
    return Ranking(tuple(_ranked(passage, is_scaled) for passage in passages), answer.receipt)


def _ranked(passage: Passage, is_scaled: bool) -> RankedText:
    score = passage.score
    assert score is not None, "a ranked passage has a score"
    relevance = score if is_scaled else _sigmoid(score)
    return RankedText(passage.chunk_id - OWN_CHUNK_MIN, passage.text, score, relevance)


def _sigmoid(score: float) -> float:
    """Return 1 / (1 + exp(-score)), for any finite score."""
    return 0.5 * (1.0 + math.tanh(score / 2))
