"""Samples as padded token tensors, and the loss and accuracy on them."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from .prompts import SPECIAL_TOKENS
from .samples import Sample
from .sight_loss import SightLoss
from .sights import Look, looks, repeated

_CLOSING_TOKENS = 3  # of a user's turn, after the question
_TURN_TOKENS = 4  # before and after a question


@dataclass(frozen=True, slots=True)
class Encoded:
    """ids: the chat; replies: (kind, first token, one past the last token) of each reply."""

    ids: list[int]
    replies: list[tuple[str, int, int]]
    looks: list[Look] = field(default_factory=list)
    """Where the shown heads ought to look."""


@dataclass(frozen=True, slots=True)
class Batch:
    """ids: [rows, length], padded right (causal attention never sees the padding)."""

    ids: torch.Tensor
    rows: list[Encoded]


def encode(sample: Sample, tokenizer: Tokenizer) -> Encoded:
    ids: list[int] = []
    replies = []
    asked = []
    shown: list[Look] = []
    before = range(0)

    def to_ids(text: str) -> list[int]:
        return list(tokenizer.encode(text).ids)

    for piece in sample.pieces:
        tokens = to_ids(piece.text)
        here = range(len(ids), len(ids) + len(tokens))
        if piece.is_reply:
            replies.append((piece.kind, here.start, here.stop))
            if piece.question is not None:
                text = len(to_ids(piece.question.text))
                start = max(before.start, before.stop - text - _TURN_TOKENS)
                answer = len(to_ids(piece.question.answer)) + 1  # closed by one token
                last = range(max(here.start, here.stop - answer), here.stop)
                asked.append((piece.question, range(start, last.start), last))
                if last.start - text >= here.start:  # a summary repeats the question first
                    there = before.stop - text - _CLOSING_TOKENS
                    shown.extend(repeated(range(there, there + text), last.start - text))
        before = here
        ids.extend(tokens)
    if sample.notes is not None and asked:
        shown.extend(looks(sample.notes, asked, ids, to_ids))
    return Encoded(ids, replies, shown)


def copy_row(rng: random.Random, vocabulary: int, n_tokens: int) -> Encoded:
    """Random tokens in chunks, every chunk met twice: what copy heads are trained on."""
    low = len(SPECIAL_TOKENS)
    chunk = [rng.randrange(low, vocabulary) for _ in range(n_tokens)]
    if rng.random() < 0.5:
        return Encoded(chunk + chunk, [("copy", n_tokens + 1, 2 * n_tokens)])
    # the second half repeats short spans in another order
    spans = [chunk[i : i + 6] for i in range(0, n_tokens, 6)]
    rng.shuffle(spans)
    ids, replies = list(chunk), []
    for span in spans:
        replies.append(("copy", len(ids) + 1, len(ids) + len(span)))
        ids.extend(span)
    return Encoded(ids, [r for r in replies if r[2] > r[1]])


def collate(rows: list[Encoded], pad: int) -> Batch:
    length = max(len(row.ids) for row in rows)
    ids = torch.full((len(rows), length), pad, dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, : len(row.ids)] = torch.tensor(row.ids)
    return Batch(ids, rows)


def pack(rows: Iterator[Encoded], pad: int, batch_tokens: int, pool: int) -> Iterator[Batch]:
    """Batches of rows of similar length, about `batch_tokens` tokens each with the padding."""
    while True:
        waiting = sorted((next(rows) for _ in range(pool)), key=lambda row: len(row.ids))
        groups: list[list[Encoded]] = [[]]
        for row in waiting:
            if groups[-1] and (len(groups[-1]) + 1) * len(row.ids) > batch_tokens:
                groups.append([])
            groups[-1].append(row)
        order = list(range(len(groups)))
        random.Random(len(waiting[-1].ids)).shuffle(order)
        for i in order:
            yield collate(groups[i], pad)


def special_id(tokenizer: Tokenizer, token: str) -> int:
    """The id of a special token; ValueError when the tokenizer is not a reader's."""
    found = tokenizer.token_to_id(token)
    if found is None:
        raise ValueError(f"the tokenizer has no {token}: train it anew with training.tokenizer")
    return int(found)


@dataclass(frozen=True, slots=True)
class Weights:
    """Of the loss on words that are only read, and of the loss on where the shown heads look."""

    reading: float
    sight: float


@dataclass(frozen=True, slots=True)
class Scores:
    """What a batch gave.

    loss: what training lowers; reply_loss: its share from replies; right: per reply; seen: how
    well each shown role looked, between 0 and 1.
    """

    loss: torch.Tensor
    reply_loss: float
    right: list[tuple[str, bool]]
    seen: dict[str, float]


def score(
    model: LlamaForCausalLM, sight: SightLoss, batch: Batch, weights: Weights, rng: random.Random
) -> Scores:
    """Teacher-forced loss on replies plus a small share on sampled tokens of the rest.

    Logits are computed only where a loss is taken: the vocabulary is most of the network's cost.
    """
    hidden = model.model(input_ids=batch.ids, use_cache=False).last_hidden_state
    width = batch.ids.shape[1]
    reply_at: list[int] = []
    read_at: list[int] = []
    for i, row in enumerate(batch.rows):
        for _, first, end in row.replies:
            reply_at.extend(i * width + t for t in range(first - 1, end - 1))
        read_at.extend(i * width + rng.randrange(len(row.ids) - 1) for _ in range(24))
    at = torch.tensor(reply_at + read_at)
    logits = F.linear(hidden.reshape(-1, hidden.shape[-1])[at], model.lm_head.weight).float()
    targets = batch.ids.reshape(-1)[at + 1]
    losses = F.cross_entropy(logits, targets, reduction="none")
    n_reply = len(reply_at)
    reply_loss = losses[:n_reply].mean()
    missed, seen = sight([row.looks for row in batch.rows])
    loss = reply_loss + weights.reading * losses[n_reply:].mean() + weights.sight * missed
    hits = (logits[:n_reply].argmax(-1) == targets[:n_reply]).tolist()
    right, position = [], 0
    for row in batch.rows:
        for kind, first, end in row.replies:
            right.append((kind, all(hits[position : position + end - first])))
            position += end - first
    return Scores(loss, float(reply_loss.detach()), right, seen)
