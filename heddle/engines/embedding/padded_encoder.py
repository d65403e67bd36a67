"""An encoder of any family, as transformers has it: rows are padded to the longest."""

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor
from transformers import AutoModel
from transformers.utils.logging import disable_progress_bar

from heddle.encoder.embedding_table import SHARED_TABLES, EmbeddingTable
from heddle.encoder.encoder_directory import EncoderDirectory


def padded(
    rows: Sequence[Sequence[int]], row_count: int, length: int, *, is_pinned: bool = False
) -> Tensor:
    """Return token ids, and a mask that is 1 where a row has one.

    Args:
        rows: token ids, at most `row_count` rows of at most `length`.
        row_count: rows of the result.
        length: tokens of each of them.
        is_pinned: whether it lies in page-locked memory, which a GPU copies without waiting.

    Shapes: result [2, row_count, length] int64 on the host; 0 where there is no token.
    """
    both = torch.zeros((2, row_count, length), dtype=torch.long, pin_memory=is_pinned)
    ids, mask = both
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
        mask[i, : len(row)] = 1
    return both


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
        model.config.use_cache = False  # each text is read once: no keys are kept for later tokens
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
        ids, mask = padded(rows, len(rows), max(map(len, rows))).to(self._device)
        return self.compute(ids, mask).float(), mask

    def compute(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the states of all tokens. Shapes: ids and mask [n, l]; result [n, l, d]."""
        states: Tensor = self._model(input_ids=ids, attention_mask=mask).last_hidden_state
        return states
