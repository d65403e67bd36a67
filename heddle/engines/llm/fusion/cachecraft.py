"""Cache-Craft: of each chunk as much as its old context mattered and is missing now.

(Agarwal et al. 2025, arXiv 2502.15734.) What is judged here was measured when the chunk's KV was
computed (`AttentionLog`). The prefix counts as something that a chunk looks at, but never as
context that may be missing: every chunk of a store has seen one. So raw KV from right behind the
prefix has no old context, and all its impact counts as lost.
"""

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from heddle.engines.llm.fusion.epic import leading
from heddle.engines.llm.fusion.fused_prompt import FusedPrompt, ReusedChunk, Sweeps
from heddle.engines.llm.fusion.prompt_layout import ChunkSpan
from heddle.engines.llm.fusion.selection import NONE, budget_of, highest, positions_of
from heddle.kv.chunk_attention import ChunkAttention


def cachecraft(prompt: FusedPrompt, ratio: float) -> Sweeps:
    """Compute of each chunk the share that its CFO says: the tokens that looked furthest back.

    The ratio is the paper's α, so it bounds each chunk's share. A chunk stored without its
    attention gives its first tokens, as in EPIC.
    """
    selected = [NONE]
    for chunk in prompt.candidates:
        attention, span = chunk.record.attention, prompt.left_of(chunk.span)
        if attention is None:
            selected.append(leading([span], ratio))
        else:
            count = math.ceil(ratio * fix_overhead(attention, chunk) * span.tokens)
            weights = attention.weights[-span.tokens :]
            selected.append(highest(positions_of([span]), weights, count))
    yield prompt.last_sweep(np.concatenate(selected))


def cachecraft_fixed(prompt: FusedPrompt, ratio: float) -> Sweeps:
    """Compute one share of all tokens: those whose last layer looked furthest back.

    The form that FusionRAG compares itself with (§5.1). Chunks stored without their attention give
    their first tokens.
    """
    known: list[ChunkSpan] = []
    unknown: list[ChunkSpan] = []
    weights = [np.empty(0, np.float32)]
    for chunk in prompt.candidates:
        attention, span = chunk.record.attention, prompt.left_of(chunk.span)
        if attention is None:
            unknown.append(span)
        else:
            known.append(span)
            weights.append(attention.last_weights[-span.tokens :])
    judged = highest(positions_of(known), np.concatenate(weights), budget_of(known, ratio))
    yield prompt.last_sweep(np.concatenate([judged, leading(unknown, ratio)]))


def fix_overhead(attention: ChunkAttention, chunk: ReusedChunk) -> float:
    """Return the chunk's CFO at α = 1: its context's impact, times what of it is missing now."""
    old, new = chunk.record.context, chunk.before
    return attention.impact * (1.0 - overlap(attention.inter.tolist(), old, new))


def overlap(inter: Sequence[float], old: Sequence[bytes], new: Sequence[bytes]) -> float:
    """Return the paper's β': the share of the old context that is there again, in its order.

    `inter` says how much attention each chunk of the old context got.
    """
    total = sum(inter)
    if total <= 0.0:
        return 0.0
    again = sum(weight for digest, weight in zip(old, inter, strict=True) if digest in new)
    return again / total * (1.0 - discordance(old, new))


def discordance(old: Sequence[bytes], new: Sequence[bytes]) -> float:
    """Return the share of the pairs in both sequences that stand the other way round in one.

    (Kendall's tau distance.)
    """
    places = {digest: place for place, digest in enumerate(new)}
    common = [places[digest] for digest in dict.fromkeys(old) if digest in places]
    pairs = list(combinations(common, 2))
    return sum(first > second for first, second in pairs) / len(pairs) if pairs else 0.0
