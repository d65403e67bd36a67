"""From an engine's results to a primitive's value: joins split rows, looks passages up."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

import numpy as np

from heddle.core.counts import SearchCounts
from heddle.core.degradation import DegradationKind
from heddle.core.errors import InternalError
from heddle.core.frames import Progress
from heddle.core.passages import Passage
from heddle.core.ports import PassageSource
from heddle.core.results import (
    Asked,
    Extracted,
    FinishReason,
    Generated,
    Hits,
    Ingested,
    Prefilled,
    Primed,
    RankedHits,
    Reranked,
    Result,
    ToolResult,
    Vectors,
)
from heddle.graph.primitive import DecodeConfig, Primitive, SearchConfig
from heddle.runtime.rank_fusion import fused
from heddle.runtime.receipt import ReceiptDraft
from heddle.runtime.written_list import as_lines

READERS: Final = (Vectors, Reranked, Extracted)


def fold(
    primitive: Primitive,
    parts: Mapping[int, Result],
    passages: PassageSource | None,
    receipt: ReceiptDraft,
    tenant: str = "",
) -> object:
    """Return the value of a primitive whose rows are all answered; `parts` by first row.

    Of passages, only those that `tenant` may see: a search that had begun when the first document
    of another tenant was committed has no filter and may have found it.

    Mutates: adds to the receipt's counts.
    """
    results = [parts[first_row] for first_row in sorted(parts)]
    if isinstance(primitive.config, SearchConfig):
        found = [r.value if isinstance(r, ToolResult) else r for r in results]
        hits = [r for r in found if isinstance(r, Hits)]
        return _fold_hits(hits, primitive.config, passages, receipt, tenant)
    if isinstance(primitive.config, DecodeConfig):
        return _fold_generated(results[0], primitive, receipt)
    return _fold_plain(results, receipt)


def passages_so_far(
    event: Progress, topk: int, passages: PassageSource | None, tenant: str
) -> tuple[Passage, ...]:
    """Return the value of a search by meaning as if its partial hits were the final ones."""
    assert event.labels is not None, "partial hits without hits"
    assert event.distances is not None, "partial hits without distances"
    hits = Hits(event.labels, event.distances)
    return _passages(_nearest((hits,), topk), passages, tenant)  # the search itself notes damage


def first_passages(
    hits: Sequence[Hits], config: SearchConfig, passages: PassageSource | None, tenant: str
) -> tuple[Passage, ...]:
    """Return what a search finds by the hits of its first rows; it's the value's beginning where
    the passages of `each` query are wanted.
    """
    return _passages(_best(hits, config, ReceiptDraft()), passages, tenant)


def text_value(written: Generated, is_list: bool, node: str, receipt: ReceiptDraft) -> object:
    """Return the value of a generation's text: the text, or its lines as a list.

    Mutates: the receipt notes why the text ended, and says so where there is no line.
    """
    receipt.ends[node] = written.finish_reason
    if not is_list:
        return written.text.strip()
    lines = as_lines(written.text)
    if not lines:
        # The loop that consumes the list still gets its first turn.
        note = f"node {node!r} wrote no line; its list has one empty"
        receipt.degrade(DegradationKind.EMPTY_LIST, note)
    return lines or ("",)


class Reported(NamedTuple):
    """What results report of tokens: fields of a `Span`, in its order."""

    tokens_read: int = 0
    tokens_reused: int = 0
    tokens_written: int = 0
    finish_reason: FinishReason | None = None
    remote: str = ""


NOTHING: Final = Reported()


def reported(results: Iterable[Result]) -> Reported:
    """Return the tokens that a primitive's results report."""
    found = NOTHING
    for result in results:
        if isinstance(result, Prefilled):
            found = Reported(result.tokens, result.tokens_reused)
        elif isinstance(result, Generated):
            found = _reported_text(result)
        elif isinstance(result, READERS):
            found = Reported(found.tokens_read + result.tokens)
    return found


def _reported_text(written: Generated) -> Reported:
    run, reason = written.remote, written.finish_reason
    if run is None:
        return Reported(0, 0, len(written.token_ids), reason)
    model = f"{run.model} at {run.server}"
    return Reported(run.prompt_tokens, run.prompt_tokens_reused, run.tokens, reason, model)


def _fold_plain(results: Sequence[Result], receipt: ReceiptDraft) -> object:
    first = results[0]
    if isinstance(first, Vectors):
        vectors = [r for r in results if isinstance(r, Vectors)]
        receipt.texts_truncated += sum(v.truncated for v in vectors)
        receipt.texts_windowed += sum(v.windowed for v in vectors)
        return first if len(vectors) == 1 else Vectors(np.vstack([v.values for v in vectors]))
    if isinstance(first, Ingested):
        stored = [r for r in results if isinstance(r, Ingested)]
        return Ingested(sum(s.count for s in stored), max(s.revision for s in stored))
    if isinstance(first, Primed):
        return first
    if isinstance(first, Asked):
        if first.problem:
            receipt.degrade(DegradationKind.QUESTION_AHEAD, first.problem)
        return None
    if isinstance(first, ToolResult):
        return first.value
    raise InternalError(f"{type(first).__name__} is no value of a primitive")


def _fold_generated(result: Result, primitive: Primitive, receipt: ReceiptDraft) -> object:
    assert isinstance(primitive.config, DecodeConfig), f"{primitive.name!r} is no decode"
    assert isinstance(result, Generated), f"a decode was answered with {type(result).__name__}"
    receipt.preemptions += result.preemptions
    receipt.drafted_tokens += result.drafted
    receipt.accepted_tokens += result.accepted
    if primitive.config.sampling.constraint is not None and not result.finish_reason.is_pause:
        receipt.constrained += 1
        receipt.constrained_cut += result.finish_reason is FinishReason.LENGTH
    if result.transfer is not None:
        receipt.take_transfer(result.transfer)
    if result.remote is not None:
        receipt.take_remote(result.remote)
    if primitive.config.is_round:
        return result
    receipt.generated_tokens += len(result.token_ids)
    return text_value(result, primitive.config.as_lines, primitive.node, receipt)


def _fold_hits(
    hits: Sequence[Hits],
    config: SearchConfig,
    passages: PassageSource | None,
    receipt: ReceiptDraft,
    tenant: str,
) -> tuple[Passage, ...]:
    counts = [h.counts for h in hits]
    receipt.add(counts[0] if len(counts) == 1 else SearchCounts.at_once(counts))
    notes: list[str] = []
    for group in hits:
        receipt.recall = group.recall or receipt.recall
        notes += group.notes
        if group.searched_by:
            receipt.searched_by.append(group.searched_by)
    receipt.degrade(DegradationKind.SEARCH, *dict.fromkeys(notes))
    nearest = _best(hits, config, receipt)
    found = _passages(nearest, passages, tenant)
    if passages is not None and len(found) < len(nearest):
        _note_damage(nearest.keys() - {p.chunk_id for p in found}, passages, tenant, receipt)
    return found


def _best(hits: Sequence[Hits], config: SearchConfig, receipt: ReceiptDraft) -> dict[int, float]:
    """Return the best chunks and their distances, in the order in which they are shown."""
    topk, best = config.topk, dict[int, float]()
    for group in _by_query(hits) if config.each else (hits,):
        found = _fused(group, topk, receipt) if config.words else _nearest(group, topk)
        for label, distance in found.items():
            best.setdefault(label, distance)
    return best


def _by_query(hits: Sequence[Hits]) -> Iterator[tuple[Hits]]:
    """Yield the hits of each query alone."""
    for group in hits:
        for row in range(len(group.labels)):
            own, words = slice(row, row + 1), group.by_words
            if words is not None:
                words = RankedHits(words.labels[own], words.distances[own])
            yield (Hits(group.labels[own], group.distances[own], by_words=words),)


def _note_damage(
    missing: AbstractSet[int], passages: PassageSource, tenant: str, receipt: ReceiptDraft
) -> None:
    """Say how many passages are not shown because they are damaged.

    Damage of another tenant's passages stays unnamed.
    """
    if damaged := passages.count_damaged(sorted(missing), tenant):
        note = f"{damaged} passages that were found are damaged in the corpus and were left out"
        receipt.degrade(DegradationKind.CORPUS, note)


def _passages(
    nearest: Mapping[int, float], passages: PassageSource | None, tenant: str
) -> tuple[Passage, ...]:
    if passages is None:
        return tuple(Passage(chunk_id, "", "", "", d) for chunk_id, d in nearest.items())
    found = (p for p in passages.passages(list(nearest)) if p.tenant in ("", tenant))
    return tuple(_at_distance(p, nearest[p.chunk_id]) for p in found)


def _at_distance(passage: Passage, distance: float) -> Passage:
    """Return a passage as a search found it, in less time than `dataclasses.replace` takes."""
    return Passage(
        passage.chunk_id,
        passage.document_id,
        passage.title,
        passage.text,
        distance,
        passage.position,
        passage.tenant,
        passage.collection,
        passage.place,
        passage.copies,
        passage.score,
    )


def _fused(hits: Sequence[Hits], topk: int, receipt: ReceiptDraft) -> dict[int, float]:
    """Return the topk best chunks over all rows by meaning and by words, the best first."""
    if any(group.by_words is None for group in hits):
        note = "nothing was found by words in this index; only meaning counted"
        receipt.degrade(DegradationKind.SEARCH, note)
    found: list[Hits | RankedHits] = [*hits]
    found += [group.by_words for group in hits if group.by_words is not None]
    distance_of: dict[int, float] = {}
    rankings: list[list[int]] = []
    for group in found:
        for labels, distances in zip(group.labels.tolist(), group.distances.tolist(), strict=True):
            row = {label: d for label, d in zip(labels, distances, strict=True) if label >= 0}
            rankings.append(list(row))
            for label, distance in row.items():
                distance_of[label] = min(distance, distance_of.get(label, math.inf))
    return {label: distance_of[label] for label in fused(rankings, topk)}


def _nearest(hits: Sequence[Hits], topk: int) -> dict[int, float]:
    """Return the topk nearest chunks over all rows, each once, nearest first."""
    best: dict[int, float] = {}
    for group in hits:
        labels, distances = group.labels.ravel().tolist(), group.distances.ravel().tolist()
        for label, distance in zip(labels, distances, strict=True):
            if label >= 0 and distance < best.get(label, math.inf):
                best[label] = distance
    order = sorted(best.items(), key=lambda item: (item[1], item[0]))
    return dict(order[:topk])
