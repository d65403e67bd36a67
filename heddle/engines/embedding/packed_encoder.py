"""A BERT that embeds rows one behind the other: no padding, and no import of transformers.

That import takes 2.5 CPU seconds, which each start of a lane would wait for.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Final, Self

import torch
from safetensors.torch import load_file
from torch import Tensor

from heddle.encoder.embedding_table import SHARED_TABLES
from heddle.encoder.encoder_directory import EncoderDirectory, read_json
from heddle.encoder.packed_bert import BertShape, PackedBert, PackedRows
from heddle.encoder.weight_files import weight_files

PLAIN: Final = {  # what `PackedBert` computes, and transformers does without these entries
    "model_type": "bert",
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}
PREFIX: Final = "bert."


class PackedEncoder:
    """The token states of a plain BERT.

    Args:
        encoder: its embeddings and layers.
    """

    def __init__(self, encoder: PackedBert) -> None:
        self._encoder = encoder

    @staticmethod
    def takes(directory: EncoderDirectory, device: torch.device) -> bool:
        """Whether it computes what a directory has; only on a CPU, which runs row after row."""
        config = read_json(directory.path / "config.json")
        return device.type == "cpu" and all(config.get(k, v) == v for k, v in PLAIN.items())

    @classmethod
    def load(cls, directory: EncoderDirectory, dtype: torch.dtype, device: torch.device) -> Self:
        """Load the weights of a directory.

        Raises:
            ConfigError, KeyError, OSError: they are not those of a BERT, or can't be read.
        """
        config = read_json(directory.path / "config.json")
        shape = BertShape(
            int(str(config["num_hidden_layers"])),
            int(str(config["num_attention_heads"])),
            float(str(config.get("layer_norm_eps", 1e-12))),
        )
        weights: dict[str, Tensor] = {}
        for file in weight_files(directory.path):
            weights |= load_file(file, device=str(device))
        layers = {name.removeprefix(PREFIX): w.to(dtype) for name, w in weights.items()}
        return cls(PackedBert(SHARED_TABLES.table(directory.path, dtype, device), layers, shape))

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of its weights."""
        return self._encoder.table.word.dtype

    def states(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Return the states of all tokens, and a mask that is 1 where a row has one.

        Shapes: states [n, l, d] float32; mask [n, l] int64; l is the longest row's length.
        """
        lengths = [len(row) for row in rows]
        ids = torch.tensor(list(chain.from_iterable(rows)))
        positions = torch.cat([torch.arange(length) for length in lengths])
        packed = PackedRows(ids, torch.zeros_like(ids), positions, lengths)
        states = torch.split(self._encoder(packed).float(), lengths)
        mask = (torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]).long()
        return torch.nn.utils.rnn.pad_sequence(list(states), batch_first=True), mask
