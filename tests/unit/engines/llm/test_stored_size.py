"""Bytes of stored KV from config.json alone, as the store really writes them."""

import json

import pytest
import torch

from heddle.core.errors import ConfigError
from heddle.engines.llm.stored_size import stored_token_bytes
from heddle.engines.llm.worker import kv_shape
from tests.helpers.tiny_models import FAMILIES, tiny_config


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_what_the_pool_says_in_bfloat16(tmp_path, family):
    config = tiny_config(family)
    config.save_pretrained(tmp_path)
    assert stored_token_bytes(tmp_path) == kv_shape(config, torch.bfloat16).token_bytes


def test_a_config_without_a_size_is_named(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"num_attention_heads": 2}))
    with pytest.raises(ConfigError, match=r"config\.json has no hidden_size"):
        stored_token_bytes(tmp_path)
