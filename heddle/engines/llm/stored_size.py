"""How much disk a token's stored KV takes, from a model's config alone."""

from pathlib import Path
from typing import Final

from heddle.core.errors import ConfigError
from heddle.engines.llm.chat_template import read_json

STORED_NUMBER_BYTES: Final = 2  # bfloat16, as the chunk KV store writes it


def stored_token_bytes(directory: Path) -> int:
    """Return the bytes of one token's keys and values over all layers, as they are stored.

    Raises:
        ConfigError: config.json lacks a size.
    """
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
    return 2 * size("num_hidden_layers") * kv_heads * head_dim * STORED_NUMBER_BYTES
