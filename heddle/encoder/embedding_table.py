"""The first part of a BERT: word, position and type, added and normalised.

Models that were trained from one encoder have it in common. A process keeps one copy of it for each
encoder, dtype and device, as long as a model uses it.
"""

from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final, Self
from weakref import WeakValueDictionary

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn

from heddle.core.errors import ConfigError
from heddle.encoder.weight_files import weight_files

NAMES: Final = {
    "word": "word_embeddings.weight",
    "position": "position_embeddings.weight",
    "type": "token_type_embeddings.weight",
    "scale": "LayerNorm.weight",
    "shift": "LayerNorm.bias",
}
_Key = tuple[Path, torch.dtype, torch.device]


@dataclass(frozen=True, eq=False)
class EmbeddingTable:
    """The weights of a BERT's embeddings, on one device, in one dtype.

    Shapes: word [vocabulary, d]; position [positions, d]; type [types, d]; scale [d]; shift [d].
    """

    word: Tensor
    position: Tensor
    type: Tensor
    scale: Tensor
    shift: Tensor

    @classmethod
    def read(cls, directory: Path, dtype: torch.dtype, device: torch.device) -> Self:
        """Read a table from a model's safetensors.

        Raises:
            ConfigError: they hold no BERT's embeddings.
        """
        found: dict[str, Tensor] = {}
        for file in weight_files(directory):
            with safe_open(file, framework="pt") as weights:
                stored = {name.removeprefix("bert."): name for name in weights.keys()}  # noqa: SIM118
                for field, name in NAMES.items():
                    if f"embeddings.{name}" in stored:
                        tensor = weights.get_tensor(stored[f"embeddings.{name}"])
                        found[field] = tensor.to(device, dtype)
        missing = NAMES.keys() - found.keys()
        if missing:
            raise ConfigError(
                f"model directory {directory} has no {NAMES[min(missing)]}: its safetensors "
                "are not those of a BERT"
            )
        return cls(**found)

    @classmethod
    def of(cls, embeddings: nn.Module) -> Self:
        """Return the table of transformers' `BertEmbeddings`; it shares their memory."""
        return cls(**{k: embeddings.get_parameter(name).detach() for k, name in NAMES.items()})

    def lend_to(self, embeddings: nn.Module) -> None:
        """Let transformers' `BertEmbeddings` use this table's memory. Mutates: its parameters."""
        for field, name in NAMES.items():
            embeddings.get_parameter(name).data = getattr(self, field)

    def embed(self, ids: Tensor, types: Tensor, positions: Tensor, epsilon: float) -> Tensor:
        """Return the first layer's input [n, d]. Shapes: ids, types and positions [n]."""
        total = F.embedding(ids, self.word)
        total += F.embedding(types, self.type)
        total += F.embedding(positions, self.position)
        return F.layer_norm(total, self.scale.shape, self.scale, self.shift, epsilon)


class SharedTables:
    """The tables of a process, each as long as a model holds it. Thread-safe."""

    def __init__(self) -> None:
        self._tables: WeakValueDictionary[_Key, EmbeddingTable] = WeakValueDictionary()
        self._lock = Lock()

    def table(self, directory: Path, dtype: torch.dtype, device: torch.device) -> EmbeddingTable:
        """Return a model's table: the one in use, or read from its files.

        Raises:
            ConfigError: the files hold no BERT's embeddings.
        """
        place = torch.empty(0, device=device).device  # with its number
        key = (directory.resolve(), dtype, place)
        with self._lock:
            table = self._tables.get(key)
            if table is None:
                table = self._tables[key] = EmbeddingTable.read(directory, dtype, device)
            return table

    def share(self, directory: Path, model: nn.Module) -> EmbeddingTable | None:
        """Let a loaded BERT and all others of this directory use one table; hold what is returned.

        None where the model is no BERT with such embeddings, which shares nothing.
        """
        embeddings = getattr(model, "embeddings", None)
        if not isinstance(embeddings, nn.Module):
            return None
        held = {name for name, _ in embeddings.named_parameters()}
        if held != set(NAMES.values()):
            return None
        table = EmbeddingTable.of(embeddings)
        key = (directory.resolve(), table.word.dtype, table.word.device)
        with self._lock:
            known = self._tables.setdefault(key, table)
        if known is not table:
            known.lend_to(embeddings)
        return known


SHARED_TABLES: Final = SharedTables()
