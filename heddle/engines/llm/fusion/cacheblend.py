"""CacheBlend: the tokens whose values move most when the whole prompt is read.

(Yao et al. 2025, arXiv 2405.16444.)
"""

from collections.abc import Sequence

import numpy as np

from heddle.engines.llm.fusion.fused_prompt import FusedPrompt, Measured, Positions, Sweep, Sweeps
from heddle.engines.llm.fusion.selection import NONE, Scores, budget_of, highest, positions_of


def cacheblend(prompt: FusedPrompt, ratio: float) -> Sweeps:
    """Compute the first layers of all tokens; go on with those whose values moved furthest.

    So the KV of the first layers is that of full attention everywhere, at any ratio. How far
    a token's values moved is the squared distance, in the last of these layers, to the reused
    ones. The question and missing chunks are always computed.

    Deviates: the selected tokens pass through the first layers once more instead of waiting
    there. Only KV outlives a step, and theirs comes out the same.
    """
    chunks = prompt.candidate_spans
    selected = NONE
    if chunks:
        moved = yield Sweep(_all(prompt), checks=True)
        selected = _furthest(prompt, moved, positions_of(chunks), budget_of(chunks, ratio))
    yield prompt.last_sweep(selected)


def cacheblend_legacy(prompt: FusedPrompt, ratio: float) -> Sweeps:
    """Select and mask as the authors' first repository does; for comparison only.

    Every question token but the last competes with the chunks' for the same share; those that lose
    keep the KV of the question alone. What is selected is masked as if it stood at the end of the
    prompt, so early tokens see later ones.

    Deviates: chunks that are missing (there, none ever is) are computed first, as usual; of a
    selection too long for one step, the later slices are still stale where the earlier ones look.
    """
    chunks, question = prompt.candidate_spans, prompt.question
    if not chunks:
        yield prompt.last_sweep(NONE)
        return
    gaps = np.setdiff1d(prompt.uncovered, question)
    if gaps.size:
        yield Sweep(gaps)
    yield Sweep(question, before=())
    moved = yield Sweep(_all(prompt), checks=True)
    rivals = np.concatenate([positions_of(chunks), question[:-1]])
    selected = _furthest(prompt, moved, rivals, int(ratio * len(rivals)))
    yield Sweep(np.append(selected, question[-1]), is_last=True, is_bottom_right=True)


def _all(prompt: FusedPrompt) -> Positions:
    return np.arange(prompt.exact_tokens, prompt.layout.tokens, dtype=np.int64)


def _furthest(
    prompt: FusedPrompt, moved: Sequence[Measured], rivals: Positions, count: int
) -> Positions:
    """Return the `count` of these positions that moved furthest, by what `_all` has measured."""
    distances: Scores = np.concatenate([distance for (distance,) in moved])
    return highest(rivals, distances[rivals - prompt.exact_tokens], count)
