"""Each kind of result is compared with its payload; the field that is wrong is named."""

import numpy as np
import pytest

from heddle.core.payloads import (
    EmbedPayload,
    ExtractPayload,
    ReadingText,
    RerankPayload,
    SearchPayload,
    ToolPayload,
)
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Extracted, Hits, Quote, Reranked, ToolResult, Vectors
from heddle.hosts.result_check import RESULTS, result_problem

PASSAGES = (ReadingText("", "a mill"), ReadingText("", "a ferry"))
SEARCH = SearchPayload(np.zeros((2, 4), np.float32), 3)
RANK = RerankPayload("which", PASSAGES)
EXTRACT = ExtractPayload("which", PASSAGES)
LABELS = np.array([[1, 2], [3, -1]], np.int64)
DISTANCES = np.array([[0.1, 0.2], [0.3, np.inf]], np.float32)
GOOD = [
    (PrimitiveKind.EMBEDDING, EmbedPayload(("a",)), Vectors(np.ones((1, 4), np.float32))),
    (PrimitiveKind.SEARCHING, SEARCH, Hits(LABELS, DISTANCES)),
    (PrimitiveKind.RERANKING, RANK, Reranked((1.0, 0.5))),
    (PrimitiveKind.RERANKING, RANK, Reranked((np.float32(1.0), np.int64(2)))),
    (PrimitiveKind.EXTRACTING, EXTRACT, Extracted((Quote(0, 2, 6, 1.0),), (1.0, 0.0))),
    (PrimitiveKind.TOOL, ToolPayload(len, ("a",)), ToolResult(1)),
]


@pytest.mark.parametrize(("kind", "payload", "result"), GOOD)
def test_a_right_result_has_no_problem(kind, payload, result):
    assert result_problem(kind, payload, result) == ""


def test_every_kind_that_can_be_checked_is_tried():
    assert {kind for kind, _, _ in GOOD} == set(RESULTS)


@pytest.mark.parametrize(
    ("kind", "payload", "result", "words"),
    [
        (PrimitiveKind.RERANKING, RANK, Extracted((), ()), "answered by Reranked"),
        (PrimitiveKind.RERANKING, EXTRACT, Reranked((1.0,)), "no payload of kind reranking"),
        (PrimitiveKind.RERANKING, RANK, Reranked((1.0,)), "1 scores for 2 passages"),
        (PrimitiveKind.RERANKING, RANK, Reranked((1.0, float("nan"))), "no finite number"),
        (PrimitiveKind.RERANKING, RANK, Reranked((1.0, np.float32("inf"))), "no finite number"),
        (PrimitiveKind.RERANKING, RANK, Reranked((1.0, "2")), "no finite number"),
        (PrimitiveKind.SEARCHING, SEARCH, Hits(LABELS[:1], DISTANCES[:1]), "Hits.labels has 1"),
        (PrimitiveKind.SEARCHING, SEARCH, Hits(LABELS, DISTANCES[:, :1]), "Hits.distances"),
        (PrimitiveKind.SEARCHING, SEARCH, Hits(LABELS, DISTANCES * np.nan), "is no number"),
        (PrimitiveKind.EXTRACTING, EXTRACT, Extracted((), (1.0,)), "Extracted.scores has 1"),
        (
            PrimitiveKind.EXTRACTING,
            EXTRACT,
            Extracted((Quote(1, 2, 9, 1.0),), (1.0, 0.0)),
            "no part of a passage",
        ),
        (
            PrimitiveKind.EXTRACTING,
            EXTRACT,
            Extracted((Quote(2, 0, 1, 1.0),), (1.0, 0.0)),
            "no part of a passage",
        ),
    ],
)
def test_a_wrong_result_is_named(kind, payload, result, words):
    assert words in result_problem(kind, payload, result)
