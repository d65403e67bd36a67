"""FusionRAG: the tokens that the question looks at. (FusionRAG §3.2)"""

import numpy as np

from heddle.core.kv_reuse import QuestionPass
from heddle.engines.llm.fusion.fused_prompt import FusedPrompt, Sweep, Sweeps
from heddle.engines.llm.fusion.selection import NONE, budget_of, highest, positions_of


def fusionrag(prompt: FusedPrompt, ratio: float) -> Sweeps:
    """Run the question first; compute anew what its last layer looks at most, over all chunks.

    Alone, the question sees only itself in that sweep, so it may have been run ahead of its prompt.
    Its keys and values are computed again in any case, on top of what was selected.
    """
    chunks = prompt.candidate_spans
    budget = budget_of(chunks, ratio)
    selected = NONE
    if budget:
        scores = prompt.candidate_scores
        if scores is None:
            is_alone = prompt.options.question is QuestionPass.ALONE
            before = () if is_alone else ((0, prompt.exact_tokens), *prompt.loaded)
            slices = yield Sweep(prompt.question, before=before, scored=chunks)
            scores = np.sum([np.concatenate(scores) for scores in slices], axis=0)
        selected = highest(positions_of(chunks), scores, budget)
    yield prompt.last_sweep(selected)
