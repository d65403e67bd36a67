"""Whether two outputs part where the model's two best tokens are as close as rounding."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.coscheduling.generations import Difference

TOLERANCE: Final = 1e-4  # of logits in float32, computed in batches of different shapes
NEAR: Final = 10 * TOLERANCE


def near_ties(found: Sequence[Difference], model_dir: Path) -> list[bool]:
    """Return of each difference whether the two best tokens lie within ten times the tolerance."""
    if not found:
        return []
    # Late: most runs have no difference, and need no second copy of the model.
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
    ties = []
    with torch.inference_mode():
        for one in found:
            ids = torch.tensor([[*one.prompt, *one.common]])
            best = model(ids).logits[0, -1].topk(2).values
            ties.append(bool(best[0] - best[1] < NEAR))
    return ties
