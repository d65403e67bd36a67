"""An encoder of any family, as transformers has it: rows are padded to the longest."""

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor
from transformers import AutoModel
from transformers.utils.logging import disable_progress_bar

from heddle.encoder.embedding_table import SHARED_TABLES, EmbeddingTable
from heddle.encoder.encoder_directory import EncoderDirectory


class PaddedEncoder:
    """The token states of a model of transformers.

    Args:
        model: the encoder in evaluation mode.
        device: where it runs.
        table: its embeddings, where other models of this process share them.
    """

    def __init__(
        self, model: torch.nn.Module, device: torch.device, table: EmbeddingTable | None = None
    ) -> None:
        self._model, self._device = model, device
        self._table = table  # held, so that it stays shared

    @classmethod
    def load(cls, directory: EncoderDirectory, dtype: torch.dtype, device: torch.device) -> Self:
        """Load weights from safetensors; code of the model's own is never run."""
        disable_progress_bar()
        model = AutoModel.from_pretrained(
            directory.path,
            dtype=dtype,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
        )
        model = model.eval().to(device)
        return cls(model, device, SHARED_TABLES.share(directory.path, model))

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of its weights."""
        return next(self._model.parameters()).dtype

    def states(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Return the states of all tokens, and a mask that is 1 where a row has one.

        Shapes: states [n, l, d] float32; mask [n, l] int64; l is the longest row's length.
        """
        lengths = [len(row) for row in rows]
        ids = torch.zeros((len(rows), max(lengths)), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for i, row in enumerate(rows):
            ids[i, : lengths[i]] = torch.tensor(row)
            mask[i, : lengths[i]] = 1
        ids, mask = ids.to(self._device), mask.to(self._device)
        states: Tensor = self._model(input_ids=ids, attention_mask=mask).last_hidden_state
        return states.float(), mask
