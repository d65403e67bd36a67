"""Whether a result answers its payload: asked of engines that aren't Heddle's own."""

from collections.abc import Sequence
from math import isfinite
from numbers import Real

import numpy as np

from heddle.core.payloads import (
    EmbedPayload,
    ExtractPayload,
    Payload,
    RerankPayload,
    SearchPayload,
    ToolPayload,
)
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Extracted, Hits, Reranked, ToolResult, Vectors

RESULTS = {
    PrimitiveKind.EMBEDDING: Vectors,
    PrimitiveKind.SEARCHING: Hits,
    PrimitiveKind.RERANKING: Reranked,
    PrimitiveKind.EXTRACTING: Extracted,
    PrimitiveKind.TOOL: ToolResult,
}
"""The kinds whose results can be checked, and what answers each."""


def result_problem(kind: PrimitiveKind, payload: Payload, result: object) -> str:
    """Return why a result doesn't answer a payload, naming the field; "" = it does."""
    wanted = RESULTS[kind]
    if not isinstance(result, wanted):
        return (
            f"a task of kind {kind.value} is answered by {wanted.__name__}, not by {result!r:.40}"
        )
    match payload, result:
        case EmbedPayload(), Vectors():
            return _array_problem("Vectors.values", result.values, np.float32, payload.rows)
        case SearchPayload(), Hits():
            return _hits_problem(payload, result)
        case RerankPayload(), Reranked():
            return _scores_problem("Reranked.scores", result.scores, payload.rows)
        case ExtractPayload(), Extracted():
            return _extracted_problem(payload, result)
        case ToolPayload(), ToolResult():
            return ""
        case _:
            return f"{type(payload).__name__} is no payload of kind {kind.value}"


def _array_problem(field: str, values: object, dtype: type[np.generic], rows: int) -> str:
    if not isinstance(values, np.ndarray) or values.ndim != 2 or values.dtype != dtype:
        return f"{field} must be an array [rows, n] of {np.dtype(dtype).name}"
    if len(values) != rows:
        return f"{field} has {len(values)} rows for {rows} asked"
    if not np.isfinite(values).all():
        return f"{field} has a value that is no finite number"
    return ""


def _hits_problem(payload: SearchPayload, hits: Hits) -> str:
    problem = _array_problem("Hits.labels", hits.labels, np.int64, payload.rows)
    if problem:
        return problem
    distances = hits.distances
    if not isinstance(distances, np.ndarray) or distances.shape != hits.labels.shape:
        return "Hits.distances must have the shape of Hits.labels"
    found = distances[hits.labels >= 0]  # the distance of no hit may be anything
    return "" if np.isfinite(found).all() else "Hits.distances has a value that is no number"


def _scores_problem(field: str, scores: Sequence[float], rows: int) -> str:
    if len(scores) != rows:
        return f"{field} has {len(scores)} scores for {rows} passages"
    if not all(isinstance(s, Real) and isfinite(s) for s in scores):
        return f"{field} has a value that is no finite number"
    return ""


def _extracted_problem(payload: ExtractPayload, extracted: Extracted) -> str:
    problem = _scores_problem("Extracted.scores", extracted.scores, payload.rows)
    if problem:
        return problem
    for quote in extracted.quotes:
        is_passage = 0 <= quote.passage < payload.rows
        if not is_passage or not 0 <= quote.start < quote.end <= len(
            payload.passages[quote.passage].text
        ):
            return f"Extracted.quotes has {quote}, which is no part of a passage"
    return ""
