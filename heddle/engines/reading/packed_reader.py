"""A BERT with a span head, whose windows lie one behind the other."""

from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from heddle.core.errors import ConfigError
from heddle.encoder.embedding_table import SHARED_TABLES
from heddle.encoder.encoder_directory import read_json
from heddle.encoder.packed_bert import BertShape, PackedBert, PackedRows
from heddle.engines.reading.reading_directory import TRAINED_LAYERS, ReadingDirectory
from heddle.engines.reading.spans import Finding, best_spans
from heddle.engines.reading.windows import Window


class PackedReader:
    """The extractor: an encoder, and start, end and answerability of each token.

    Args:
        encoder: its layers.
        weight: of the head.
        bias: of the head.
        span_max: the longest span [tokens].
    Shapes: weight [3, d]; bias [3]; both float32.
    """

    is_padded = False

    def __init__(self, encoder: PackedBert, weight: Tensor, bias: Tensor, span_max: int) -> None:
        self._encoder, self._weight, self._bias = encoder, weight, bias
        self._span_max = span_max

    @classmethod
    def load(cls, directory: ReadingDirectory, dtype: torch.dtype, device: torch.device) -> Self:
        """Load the trained layers of a directory, and the embeddings of its encoder.

        Raises:
            ConfigError: the weights are those of another model.
        """
        config = read_json(directory.encoder / "config.json")
        shape = BertShape(
            int(str(config["num_hidden_layers"])),
            int(str(config["num_attention_heads"])),
            float(str(config["layer_norm_eps"])),
        )
        weights: dict[str, Tensor] = {}
        for file in sorted(directory.path.glob(TRAINED_LAYERS)):
            weights |= load_file(file, device=str(device))
        table = SHARED_TABLES.table(directory.encoder, dtype, device)
        try:
            head = weights["head.weight"].float(), weights["head.bias"].float()
            layers = {name: weight.to(dtype) for name, weight in weights.items()}
            encoder = PackedBert(table, layers, shape)
        except KeyError as error:
            raise ConfigError(
                f"extractor {directory.path} has no weights named {error}; "
                "train it with `make extractor`"
            ) from error
        return cls(encoder, *head, directory.sizes.span_max)

    @property
    def encoder(self) -> PackedBert:
        """Its layers and embeddings."""
        return self._encoder

    @torch.inference_mode()
    def read(self, windows: Sequence[Window]) -> list[Finding]:
        """Return the best span of each window."""
        wanted = passage_tokens(windows)
        device = self._weight.device
        rows = pack(windows, device)
        hidden = self._encoder(rows, torch.from_numpy(wanted).to(device))
        found = torch.nn.functional.linear(hidden.float(), self._weight, self._bias)
        logits = np.zeros((len(rows.ids), 3), np.float32)
        logits[wanted] = found.cpu().numpy()
        return best_spans(logits, windows, self._span_max)


def passage_tokens(windows: Sequence[Window]) -> NDArray[np.int64]:
    """Return the places that the span search reads: first tokens, and those of passages."""
    places, begin = [], 0
    for window in windows:
        first = begin + window.first
        places += [np.array([begin]), np.arange(first, first + len(window.offsets))]
        begin += len(window.ids)
    return np.concatenate(places)


def pack(windows: Sequence[Window], device: torch.device) -> PackedRows:
    """Lay windows one behind the other."""
    lengths = [len(window.ids) for window in windows]
    types = [
        kind
        for window in windows
        for kind, count in (
            (0, window.second),
            (window.passage_type, len(window.ids) - window.second),
        )
        for _ in range(count)
    ]
    ids = [token for window in windows for token in window.ids]
    positions = [place for length in lengths for place in range(length)]
    rows = torch.tensor([ids, types, positions]).to(device)
    return PackedRows(rows[0], rows[1], rows[2], lengths)
