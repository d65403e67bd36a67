"""How much disk stored KV takes, from a model's config alone."""

from dataclasses import dataclass
from pathlib import Path

from heddle.core.errors import ConfigError
from heddle.engines.llm.text.chat_template import read_json
from heddle.kv.kv_encoding import KvEncoding

_SCALE_BYTES = 4  # float32


@dataclass(frozen=True, slots=True)
class StoredSize:
    """What chunk KV takes as it is stored: for each token, and for each chunk besides [bytes]."""

    token_bytes: int
    chunk_bytes: int

    def of_chunk(self, tokens: int) -> int:
        """Return what the KV of a chunk takes [bytes]."""
        return tokens * self.token_bytes + self.chunk_bytes


def stored_size(directory: Path, encoding: KvEncoding) -> StoredSize:
    """Return what a model's keys and values over all layers take.

    `encoding` is bf16 or int8: what numbers as computed take, no config says.

    Raises:
        ConfigError: config.json lacks a size.
    """
    numbers = _numbers_of_token(directory)
    if encoding is KvEncoding.INT8:
        return StoredSize(numbers, numbers * _SCALE_BYTES)
    assert encoding is KvEncoding.BF16, "the number type of the model is not known here"
    return StoredSize(2 * numbers, 0)


def _numbers_of_token(directory: Path) -> int:
    config = read_json(directory / "config.json")
    inner = config.get("text_config")
    config = inner if isinstance(inner, dict) else config

    def size(name: str) -> int:
        value = config.get(name)
        if not isinstance(value, int) or value < 1:
            raise ConfigError(f"{directory / 'config.json'} has no {name}")
        return value

    heads = size("num_attention_heads")
    kv_heads = config.get("num_key_value_heads") or heads
    head_dim = config.get("head_dim") or size("hidden_size") // heads
    assert isinstance(kv_heads, int), "num_key_value_heads is a number"
    assert isinstance(head_dim, int), "head_dim is a number"
    return 2 * size("num_hidden_layers") * kv_heads * head_dim
