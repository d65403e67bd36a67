"""Texts of a request as a ranking's inputs, and its answer as a ranking."""

import pytest

from heddle.app.reranking import (
    PASSAGES,
    QUERY,
    RANKED,
    TEXTS_CHARS_MAX,
    TEXTS_MAX,
    ranking_inputs,
    ranking_of,
)
from heddle.app.server_config import ServerConfig
from heddle.core.errors import InputError
from heddle.core.passages import OWN_CHUNK_MIN, Passage
from heddle.core.tasks import Optimizations
from heddle.runtime.events import Answer
from heddle.runtime.receipt import ReceiptDraft

RECEIPT = ReceiptDraft().close(Optimizations.EXACT, 0.5, "exact")


@pytest.mark.parametrize(
    ("query", "texts", "message"),
    [
        (" ", ["a"], "query must be a text"),
        (None, ["a"], "query must be a text"),
        ("q", [], "documents must be a list"),
        ("q", "text", "documents must be a list"),
        ("q", ["a", 1], r"documents\[1\] must be a text, got int"),
        ("q", ["\ud800"], r"documents\[0\] is not valid Unicode"),
        ("q", ["a"] * (TEXTS_MAX + 1), "documents: 1001 are more than 1000"),
        ("q", ["a" * (TEXTS_CHARS_MAX + 1)], "documents hold 1,000,001 characters"),
    ],
)
def test_what_is_nothing_to_rank_is_refused(query: object, texts: object, message: str):
    with pytest.raises(InputError, match=message):
        ranking_inputs(query, texts)


def test_each_text_is_a_passage_of_the_request():
    inputs = ranking_inputs("q", ["a", ""])
    assert inputs[QUERY] == "q"
    assert [passage.text for passage in inputs[PASSAGES]] == ["a", ""]
    assert all(passage.is_own for passage in inputs[PASSAGES])


@pytest.mark.parametrize(
    ("reranker", "relevances"), [("extract", [0.5, 0.0]), ("http://127.0.0.1:1/v1#any", [0, -1e38])]
)
def test_scores_of_models_here_are_brought_to_one_scale(reranker: str, relevances: list[float]):
    ranked = tuple(
        Passage(OWN_CHUNK_MIN + place, "", "", text, score=score)
        for place, text, score in ((1, "b", 0.0), (0, "a", -1e38))
    )
    answer = Answer("", ranked, {RANKED: ranked}, RECEIPT)
    ranking = ranking_of(answer, ServerConfig(reranker=reranker, index="corpus"))
    assert [(one.index, one.text, one.score) for one in ranking.texts] == [
        (1, "b", 0.0),
        (0, "a", -1e38),
    ]
    assert [one.relevance for one in ranking.texts] == relevances
