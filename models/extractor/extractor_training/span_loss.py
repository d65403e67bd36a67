"""The loss: a span's score against all spans of all passages of its question, and "no answer"."""

import torch
from torch import Tensor

from .answer_spans import Span

SPAN_MAX = 20  # tokens of an answer
PASSAGE_WEIGHT = 0.5


def span_scores(logits: Tensor, first: int, n_tokens: int) -> Tensor:
    """Return the score of each span of a window, [n_tokens, SPAN_MAX]; "no answer" scores 0.

    Row i, column k is the span of k + 1 tokens that begins at the passage's token i: its start,
    its end and the window's answerability added. Spans beyond the end are minus infinity.

    Args:
        logits: of the window's tokens, [length, 3].
        first: place of the passage's first token.
        n_tokens: tokens of the passage in this window.
    """
    start, end = logits[first : first + n_tokens, 0], logits[first : first + n_tokens, 1]
    beyond = end.new_full((SPAN_MAX - 1,), float("-inf"))
    ends = torch.cat([end, beyond]).unfold(0, SPAN_MAX, 1)
    return start[:, None] + ends + logits[0, 2]


def question_loss(scores: list[Tensor], spans: list[list[Span]]) -> Tensor:
    """Return the loss of one question.

    The likelihood of its answer's spans is a sum over all places (Clark and Gardner 2018), twice:
    over all passages at once, so that scores compare between passages, and for each alone, so
    that a score compares with "no answer".

    Args:
        scores: of each passage's spans.
        spans: first and last tokens of the answer in each passage; none where it doesn't answer.
    """
    zero = scores[0].new_zeros(1)
    totals = [torch.logsumexp(s.flatten(), 0, keepdim=True) for s in scores]
    rights = [_right(s, ours) for s, ours in zip(scores, spans, strict=True)]
    alone = [
        torch.logaddexp(total, zero) - (right if ours else zero)
        for total, right, ours in zip(totals, rights, spans, strict=True)
    ]
    own = torch.cat(alone).mean()
    if not any(spans):
        return own
    everything = torch.logsumexp(torch.cat([*totals, zero]), 0)
    shared = everything - torch.logsumexp(torch.cat(rights), 0)
    return shared + PASSAGE_WEIGHT * own


def _right(scores: Tensor, spans: list[Span]) -> Tensor:
    """The logarithm of the sum over the answer's spans, [1]; minus infinity without any."""
    if not spans:
        return scores.new_full((1,), float("-inf"))
    picked = torch.stack([scores[first, last - first] for first, last in spans])
    return torch.logsumexp(picked, 0, keepdim=True)
