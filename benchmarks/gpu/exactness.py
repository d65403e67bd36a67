"""Eight families' logits by the engine's kernels, beside transformers' own in float32.

Layers are fused where the engine would fuse them. A prompt in one step, in two, and with its last
token alone: the three kinds of step.
"""

import itertools

import numpy as np
import torch
from torch import Tensor

from benchmarks.gpu.place import Note, Place
from benchmarks.support.tiny_models import FAMILIES, prompt, tiny_model
from heddle.core.errors import InternalError
from heddle.engines.llm.attention.choice import TRITON
from heddle.engines.llm.model.gpu_layers import can_fuse_on_gpu, fuse_on_gpu
from heddle.engines.llm.model.worker import TransformersWorker
from heddle.engines.llm.step_batch import BatchRow, Draw, StepBatch
from heddle.kv.rows import SlotRun

TOLERANCE = 1e-4  # relative; a GPU's float32 products are exact to about 1e-6 unless it takes TF32


def check(place: Place, note: Note) -> dict[str, float]:
    """Run all families; the headline has the largest relative difference.

    Raises:
        InternalError: it is too large.
    """
    tokens = prompt(place.sized(700, 16), 1)
    worst = 0.0
    for family in place.sized(FAMILIES, FAMILIES[:3]):
        model = tiny_model(family).to(place.device)
        ids = torch.tensor(tokens, device=place.device)
        with torch.inference_mode():
            expected = model(ids[None]).logits[0, -1].float()
        if is_fused := can_fuse_on_gpu(model):
            fuse_on_gpu(model)
        worker = TransformersWorker(model, 2 * len(tokens), attention=TRITON)
        for cuts in ((), (len(tokens) // 2,), (len(tokens) - 1,)):
            got = _logits(worker, tokens, cuts)
            difference = float((got - expected).abs().max() / expected.abs().max())
            worst = max(worst, difference)
            note(
                {
                    "family": family,
                    "fused": is_fused,
                    "steps": len(cuts) + 1,
                    "rel_diff": difference,
                }
            )
    if not worst <= TOLERANCE:
        raise InternalError(f"logits differ by {worst:.2g}, allowed {TOLERANCE:.2g}")
    return {"max_rel_diff": worst, "families": float(place.sized(len(FAMILIES), 3))}


def _logits(worker: TransformersWorker, tokens: tuple[int, ...], cuts: tuple[int, ...]) -> Tensor:
    """Return the logits behind a prompt that is computed in steps, [vocabulary]."""
    bounds = (0, *cuts, len(tokens))
    logits = torch.empty(0)
    for start, stop in itertools.pairwise(bounds):
        row = BatchRow(0, stop - start, stop, (SlotRun(0, stop),), Draw())
        places = np.arange(start, stop)
        batch = StepBatch(np.asarray(tokens[start:stop]), places, places, (row,))
        logits = worker.logits(worker.hidden_states(batch), batch.rows)[0]
    return logits
