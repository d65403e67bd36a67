"""From what a reading model answers to a primitive's value: passages in order, or quotations."""

from collections.abc import Sequence
from dataclasses import replace

from heddle.core.errors import InternalError
from heddle.core.passages import Passage
from heddle.core.quotations import Quotations, quotations_of
from heddle.core.results import Extracted, Reranked
from heddle.graph.primitive import ExtractConfig, RerankConfig
from heddle.runtime.object_store import ObjectStore
from heddle.runtime.receipt import ReceiptDraft
from heddle.runtime.values import passages_of


def fold_reranked(
    result: Reranked, config: RerankConfig, store: ObjectStore, node: str, receipt: ReceiptDraft
) -> tuple[Passage, ...]:
    """Return the best passages, the best first; equal scores keep the search's order.

    Mutates: adds to the receipt's counts.
    """
    scored = _scored(config, store, node, result.scores, receipt)
    receipt.tokens_read += result.tokens
    receipt.texts_truncated += result.truncated
    return tuple(sorted(scored, key=lambda passage: -(passage.score or 0.0))[: config.keep])


def fold_extracted(
    result: Extracted, config: ExtractConfig, store: ObjectStore, node: str, receipt: ReceiptDraft
) -> Quotations:
    """Return the quotations of the passages that were read.

    Mutates: adds to the receipt's counts.
    """
    scored = _scored(config, store, node, result.scores, receipt)
    receipt.tokens_read += result.tokens
    return quotations_of(result.quotes, scored, result.threshold)


def _scored(
    config: RerankConfig | ExtractConfig,
    store: ObjectStore,
    node: str,
    scores: Sequence[float],
    receipt: ReceiptDraft,
) -> tuple[Passage, ...]:
    passages = passages_of(config.passages, store, node)
    if len(scores) != len(passages):
        raise InternalError(f"node {node!r}: {len(passages)} passages got {len(scores)} scores")
    receipt.passages_read += len(passages)
    # An own engine's scores may be NumPy's, which JSON has no form for.
    return tuple(
        replace(passage, score=float(score))
        for passage, score in zip(passages, scores, strict=True)
    )
