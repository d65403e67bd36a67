"""A model in this process that scores text: what comes behind each token of it."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from heddle.core.dtypes import INT8
from heddle.engines.llm.model import gate
from heddle.engines.llm.model.fused_layers import can_fuse, fuse_layers
from heddle.engines.llm.model.loading import load_model
from heddle.engines.llm.model.packed_linear import can_pack, pack_linears
from heddle.engines.llm.model.worker import TransformersWorker
from heddle.engines.llm.quantized.quantized_model import load_quantized
from heddle.engines.llm.step_batch import BatchRow, Draw, StepBatch
from heddle.kv.rows import SlotRun


class TextModel:
    """A model as an engine computes it, without the engine.

    Args:
        directory: the model's.
        dtype: its number type.
        weights: how its weights are kept.
        tokens_max: of a text.
    Raises: ConfigError: as an engine's.
    """

    def __init__(self, directory: Path, dtype: torch.dtype, weights: str, tokens_max: int) -> None:
        config = gate.load_config(directory)
        if weights == INT8:
            model = load_quantized(directory, config, dtype, torch.device("cpu"))
        else:
            model = load_model(directory, config, dtype)
            if can_fuse(model):
                fuse_layers(model)
            if can_pack(model.device, model.dtype):
                pack_linears(model)
        self._worker = TransformersWorker(model, tokens_max)

    def logits(self, token_ids: list[int], at_once: int) -> Tensor:
        """Return what comes behind each token, computed in steps of some tokens.

        Shapes: [tokens, vocabulary] float32.
        """
        parts = []
        for start in range(0, len(token_ids), at_once):
            stop = min(start + at_once, len(token_ids))
            count = stop - start
            draws = (Draw(),) * (count - 1)
            row = BatchRow(0, count, stop, (SlotRun(0, stop),), Draw(), draft_draws=draws)
            places = np.arange(start, stop, dtype=np.int64)
            ids = np.asarray(token_ids[start:stop], dtype=np.int64)
            hidden = self._worker.hidden_states(StepBatch(ids, places, places, (row,)))
            parts.append(self._worker.logits(hidden, (row,)))
        return torch.cat(parts)
