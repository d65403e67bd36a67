"""Bytes of stored KV from config.json alone, as the store really writes them."""

import json

import pytest
import torch

from heddle.core.errors import ConfigError
from heddle.engines.llm.model.worker import kv_shape
from heddle.engines.llm.reuse.stored_size import stored_size
from heddle.kv.chunk_codec import encode
from heddle.kv.kv_encoding import KvEncoding
from heddle.kv.page_store import KvBlock
from tests.helpers.tiny_models import FAMILIES, tiny_config


@pytest.mark.parametrize("encoding", [KvEncoding.BF16, KvEncoding.INT8])
@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_what_the_store_writes(tmp_path, family, encoding):
    config = tiny_config(family)
    config.save_pretrained(tmp_path)
    shape = kv_shape(config, torch.bfloat16)
    keys = torch.ones(shape.layers, shape.kv_heads, 7, shape.head_dim)
    stored = encode(KvBlock(keys, keys), encoding)
    assert stored_size(tmp_path, encoding).of_chunk(7) == stored.nbytes


def test_a_config_without_a_size_is_named(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"num_attention_heads": 2}))
    with pytest.raises(ConfigError, match=r"config\.json has no hidden_size"):
        stored_size(tmp_path, KvEncoding.BF16)
