"""Sparse recompute without pages, slots or stored rotations: transformers' layers in a loop.

Keys are kept before RoPE, so a key at any position is turned there afresh: whatever the engine
does with rotations must come to the same. Shapes: KV [layers, kv_heads, tokens, head_dim].
"""

import sys
from dataclasses import dataclass, field

import torch
from transformers import AttentionInterface


@dataclass
class PlainKv:
    """KV of neighbouring tokens, keys before RoPE."""

    keys: torch.Tensor
    values: torch.Tensor


@dataclass
class _Row:
    keys: torch.Tensor
    values: torch.Tensor
    known: torch.Tensor
    active: torch.Tensor
    rotate: object
    queries: list = field(default_factory=list)


def _attend(module, query, key, value, attention_mask, scaling, oracle_row, **_):
    row, layer = oracle_row, module.layer_idx
    row.keys[layer][:, row.active] = key[0]
    row.values[layer][:, row.active] = value[0]
    positions = torch.arange(row.keys.shape[2])
    queries = row.rotate(query, row.active)[0]
    keys = row.rotate(row.keys[layer][None], positions)[0]
    groups = queries.shape[0] // keys.shape[0]
    keys, values = (x.repeat_interleave(groups, 0) for x in (keys, row.values[layer]))
    row.queries.append(queries)
    scores = queries @ keys.transpose(1, 2) * scaling
    visible = (positions[None] <= row.active[:, None]) & row.known[None]
    weights = scores.masked_fill(~visible, float("-inf")).softmax(-1)
    return (weights @ values).transpose(0, 1)[None], None


AttentionInterface.register("fusion_oracle", _attend)


class FusionOracle:
    """Runs any set of positions of a prompt over KV that is given for the others."""

    def __init__(self, model):
        self.model = model
        self.core = model.model
        config = self.core.config
        head_dim = getattr(config, "head_dim", None) or (
            config.hidden_size // config.num_attention_heads
        )
        self.shape = (config.num_hidden_layers, config.num_key_value_heads, head_dim)
        attention = sys.modules[type(self.core.layers[0].self_attn).__module__]
        self._apply = attention.apply_rotary_pos_emb

    def _rotate(self, states, positions):
        cos, sin = self.core.rotary_emb(states, positions[None])
        return self._apply(states, states, cos, sin)[0]

    @torch.inference_mode()
    def run(self, token_ids, stored=(), active=None):
        """Compute the active positions (default: all that no stored KV covers).

        stored: (start, PlainKv) pairs. Returns logits [active, vocabulary], the KV of the whole
        row, and the last layer's turned queries [heads, active, head_dim].
        """
        layers, kv_heads, head_dim = self.shape
        length = len(token_ids)
        keys = torch.zeros(layers, kv_heads, length, head_dim)
        values = torch.zeros_like(keys)
        known = torch.zeros(length, dtype=torch.bool)
        for start, kv in stored:
            stop = start + kv.keys.shape[2]
            keys[:, :, start:stop], values[:, :, start:stop] = kv.keys, kv.values
            known[start:stop] = True
        active = (~known).nonzero()[:, 0] if active is None else torch.as_tensor(active)
        known[active] = True
        row = _Row(keys, values, known, active, self._rotate)
        ids = torch.tensor(token_ids)[active]
        hidden = self.core.embed_tokens(ids[None])
        plain = torch.ones(1, len(active), self._rotary_dims()), torch.zeros(1)
        plain = plain[0], torch.zeros_like(plain[0])
        before = self.core.config._attn_implementation
        self.core.config._attn_implementation = "fusion_oracle"
        for layer in self.core.layers:
            layer.self_attn.config._attn_implementation = "fusion_oracle"
            hidden = layer(hidden, attention_mask=None, position_embeddings=plain, oracle_row=row)
        self.core.config._attn_implementation = before
        logits = self.model.lm_head(self.core.norm(hidden))[0]
        return logits, PlainKv(keys, values), row.queries[-1]

    def _rotary_dims(self):
        cos, _ = self.core.rotary_emb(torch.zeros(1), torch.zeros(1, 1, dtype=torch.long))
        return cos.shape[-1]

    def chunk_kv(self, prefix, chunk):
        """Return the KV of a chunk right after a prefix."""
        _, kv, _ = self.run([*prefix, *chunk])
        return PlainKv(kv.keys[:, :, len(prefix) :], kv.values[:, :, len(prefix) :])
