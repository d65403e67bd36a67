"""Choosing the next token of each row from its logits."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor

from heddle.engines.llm.step_batch import Draw, TokenMask

# By less, logits would become infinite; by this alone the likeliest token is left.
TEMPERATURE_MIN: Final = 1e-300


def draw_tokens(logits: Tensor, draws: Sequence[Draw], likeliest: Sequence[int]) -> tuple[int, ...]:
    """Return one token for each row; any one where the logits are not finite.

    Args:
        logits: [n, vocabulary] float.
        draws: how each is chosen.
        likeliest: the token of each row with the largest logit.
    """
    return tuple(
        _draw(logits[row], draw, best)
        for row, (best, draw) in enumerate(zip(likeliest, draws, strict=True))
    )


def _draw(logits: Tensor, draw: Draw, best: int) -> int:
    """Return the token of one row, whose largest logit is that of `best`."""
    if draw.mask is None:
        return best if draw.temperature <= 0.0 else _sample(logits, draw)
    allowed = _allowed(draw.mask, logits)
    if not len(allowed):
        return best  # the mask has failed: the engine asks why, and takes no token
    among = logits[allowed]
    place = int(among.argmax()) if draw.temperature <= 0.0 else _sample(among, draw)
    return int(allowed[place])


def _allowed(mask: TokenMask, logits: Tensor) -> Tensor:
    """Return the tokens that may be drawn, ascending. Shapes: logits [vocabulary]; result [n]."""
    flags = np.unpackbits(mask.bits().view(np.uint8), bitorder="little")
    return torch.from_numpy(np.flatnonzero(flags[: len(logits)])).to(logits.device)


def probabilities_of(
    tokens: Sequence[int], logits: Tensor, draws: Sequence[Draw]
) -> tuple[float, ...]:
    """Return how likely the model found the drawn tokens of the rows whose draw wants it.

    Shapes: logits [n, vocabulary] float, for n tokens and draws.
    """
    rows = [row for row, draw in enumerate(draws) if draw.wants_probability]
    if not rows:
        return ()
    wanted = logits[rows]
    chosen = torch.tensor([[tokens[row]] for row in rows], device=logits.device)
    logs = wanted.gather(-1, chosen).squeeze(-1) - wanted.logsumexp(dim=-1)
    return tuple(logs.exp().tolist())


def _sample(logits: Tensor, draw: Draw) -> int:
    """Invert the cumulative distribution at the draw's uniform, after top-k, then top-p.

    Deviates: transformers applies temperature, top-k and top-p in this order too, but draws with
    a generator; a uniform of the request's own makes the token independent of its batch.
    """
    scaled = logits.double() / max(draw.temperature, TEMPERATURE_MIN)
    candidates: Tensor | None = None
    if 0 < draw.top_k < scaled.shape[-1]:
        scaled, candidates = scaled.topk(draw.top_k)
    elif draw.top_p < 1.0:
        scaled, candidates = scaled.sort(descending=True)
    cumulative = scaled.softmax(dim=-1).cumsum(dim=-1)
    if draw.top_p < 1.0:
        # The smallest set whose mass reaches top_p: the first token that gets there is in.
        last = int(torch.searchsorted(cumulative, draw.top_p * float(cumulative[-1])))
        cumulative = cumulative[: last + 1]
    target = draw.uniform * float(cumulative[-1])
    index = int(torch.searchsorted(cumulative, target, right=True))
    index = min(index, cumulative.shape[-1] - 1)
    return index if candidates is None else int(candidates[index])
