"""How well a model answers: with the right passage, among five, and when nothing answers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer

from heddle.evals.metrics.exact_match import exact_match
from heddle.evals.metrics.token_f1 import token_f1

from .answer_spans import holds_answer
from .batches import pack
from .precision import autocast
from .rows import Passage, Row
from .span_loss import SPAN_MAX, span_scores
from .span_model import SpanModel
from .whole_words import whole_words
from .windows import Window, windows_of
from .word_index import WordIndex

N_RETRIEVED = 5
_BATCH_TOKENS = 8_192
_RIGHT_F1 = 0.5


@dataclass(frozen=True, slots=True)
class Quote:
    """A passage's best span and its score; above 0 it is likelier than "no answer"."""

    score: float
    text: str


def quotes(
    model: SpanModel, tokenizer: Tokenizer, pairs: Sequence[tuple[str, Passage]]
) -> list[Quote]:
    """The best span of each passage for its question."""
    cut = [(k, w) for k, pair in enumerate(pairs) for w in windows_of(tokenizer, *pair)]
    best: dict[int, Quote] = {}
    for batch in _batches(cut):
        for (place, window), scores in zip(batch, _scores(model, batch), strict=True):
            found = _best(window, scores, pairs[place][1].text)
            if place not in best or found.score > best[place].score:
                best[place] = found
    return [best[place] for place in range(len(pairs))]


def oracle_measures(
    model: SpanModel, tokenizer: Tokenizer, rows: Sequence[Row]
) -> dict[str, float]:
    """F1, exact match and F1 of the best-scored quarter, the right passage given."""
    found = quotes(model, tokenizer, [(row.question, row.passage) for row in rows])
    f1 = np.array([token_f1(q.text, r.answers) for q, r in zip(found, rows, strict=True)])
    same = [exact_match(q.text, r.answers) for q, r in zip(found, rows, strict=True)]
    order = np.argsort([-quote.score for quote in found], kind="stable")
    measures = {
        "f1": f1.mean(),
        "exact_match": np.mean(same),
        "f1_best_quarter": f1[order[: max(1, len(rows) // 4)]].mean(),
    }
    for source in dict.fromkeys(row.source for row in rows):
        ours = [row.source == source for row in rows]
        measures[f"f1_{source}"] = f1[ours].mean()
    return {name: round(float(value), 4) for name, value in measures.items()}


def retrieved_measures(
    model: SpanModel, tokenizer: Tokenizer, rows: Sequence[Row], index: WordIndex
) -> dict[str, float]:
    """The same over five passages that BM25 finds, and whether the score knows that none answers.

    Each question is asked twice: as it is, and with every passage hidden that holds an answer.
    """
    shown, hidden = [], []
    for row in rows:
        ranked = index.best(row.question, 100)
        shown.append(ranked[:N_RETRIEVED])
        without = [p for p in ranked if not holds_answer(p.text, row.answers)]
        hidden.append(without[:N_RETRIEVED])
    chosen, lost = _choose(model, tokenizer, rows, (shown, hidden))
    f1 = np.array([token_f1(q.text, r.answers) for (q, _), r in zip(chosen, rows, strict=True)])
    same = [exact_match(q.text, r.answers) for (q, _), r in zip(chosen, rows, strict=True)]
    right = np.array([q.score for q, _ in chosen])[f1 >= _RIGHT_F1]
    wrong = np.array([quote.score for quote, _ in lost])
    threshold = np.quantile(right, 0.05) if len(right) else np.inf
    golden = [
        [p.text == row.passage.text for p in ours] for row, ours in zip(rows, shown, strict=True)
    ]
    answered = [
        any(holds_answer(p.text, row.answers) for p in ours)
        for row, ours in zip(rows, shown, strict=True)
    ]
    first = [marks[k] for marks, (_, k) in zip(golden, chosen, strict=True) if marks]
    measures = {
        "five_f1": f1.mean(),
        "five_exact_match": np.mean(same),
        "answer_in_five": np.mean(answered),
        "gold_first": np.mean(first),
        "gold_first_unranked": np.mean([marks[0] for marks in golden if marks]),
        "auroc": auroc(right, wrong),
        "declined_at_95": (wrong < threshold).mean(),
        "threshold_at_95": threshold,
    }
    return {name: round(float(value), 4) for name, value in measures.items()}


def auroc(positive: np.ndarray, negative: np.ndarray) -> float:
    """The chance that a positive scores above a negative; ties count half; 0.5 without either."""
    if not len(positive) or not len(negative):
        return 0.5
    above = (positive[:, None] > negative[None, :]).mean()
    return float(above + 0.5 * (positive[:, None] == negative[None, :]).mean())


def _choose(
    model: SpanModel,
    tokenizer: Tokenizer,
    rows: Sequence[Row],
    ways: Sequence[Sequence[Sequence[Passage]]],
) -> list[list[tuple[Quote, int]]]:
    """For each way of choosing passages: each question's best quote and its passage's place.

    A passage that several ways choose for a question is read once.
    """
    pairs = {
        (place, passage.key): (row.question, passage)
        for way in ways
        for place, (row, ours) in enumerate(zip(rows, way, strict=True))
        for passage in ours
    }
    read = quotes(model, tokenizer, list(pairs.values()))
    found = dict(zip(pairs, read, strict=True))
    return [
        [best_of([found[place, p.key] for p in ours]) for place, ours in enumerate(way)]
        for way in ways
    ]


def best_of(ours: Sequence[Quote]) -> tuple[Quote, int]:
    """The best quote and its place; an impossible one of place 0 where there is none."""
    ranked = [(quote, place) for place, quote in enumerate(ours)]
    nothing = (Quote(float("-inf"), ""), 0)
    return max(ranked, key=lambda one: one[0].score, default=nothing)


def _batches(cut: list[tuple[int, Window]]) -> list[list[tuple[int, Window]]]:
    found: list[list[tuple[int, Window]]] = []
    total = _BATCH_TOKENS
    for place, window in cut:
        if total + len(window.ids) > _BATCH_TOKENS:
            found.append([])
            total = 0
        found[-1].append((place, window))
        total += len(window.ids)
    return found


@torch.inference_mode()
def _scores(model: SpanModel, batch: list[tuple[int, Window]]) -> list[torch.Tensor]:
    windows = [window for _, window in batch]
    tokens = pack(windows)
    with autocast():
        logits = model(tokens)
    parts = torch.split(logits, tokens.lengths)
    return [
        span_scores(part, window.first, len(window.offsets))
        for part, window in zip(parts, windows, strict=True)
    ]


def _best(window: Window, scores: torch.Tensor, text: str) -> Quote:
    if not window.offsets:
        return Quote(float("-inf"), "")
    place = int(scores.argmax())
    first, more = divmod(place, SPAN_MAX)
    span = window.offsets[first][0], window.offsets[first + more][1]
    start, end = whole_words(text, span)
    return Quote(float(scores.flatten()[place]), text[start:end])
