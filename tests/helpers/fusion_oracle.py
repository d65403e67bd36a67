"""Sparse recompute without pages, slots or stored rotations: transformers' layers in a loop.

Keys are kept before RoPE, so a key at any position is turned there afresh: the engine's stored
rotations must give the same keys. Shapes: KV [layers, kv_heads, tokens, head_dim].
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
class _Row(PlainKv):
    known: torch.Tensor
    active: torch.Tensor
    limits: torch.Tensor  # the last position that each active one sees
    rotate: object
    queries: list = field(default_factory=list)
    weights: list = field(default_factory=list)


def _attend(module, query, key, value, attention_mask, scaling, oracle_row, **_):
    row, layer = oracle_row, module.layer_idx
    row.keys[layer][:, row.active] = key[0]
    row.values[layer][:, row.active] = value[0]
    positions = torch.arange(row.keys.shape[2])
    queries = row.rotate(query, row.active)[0]
    keys = row.rotate(row.keys[layer][None], positions)[0]
    heads = queries.shape[0] // keys.shape[0]
    keys, values = (x.repeat_interleave(heads, 0) for x in (keys, row.values[layer]))
    scores = queries @ keys.mT * scaling
    visible = (positions[None] <= row.limits[:, None]) & row.known[None]
    row.queries.append(queries)
    row.weights.append(scores.masked_fill(~visible, float("-inf")).softmax(-1))
    return (row.weights[-1] @ values).transpose(0, 1)[None], None


AttentionInterface.register("fusion_oracle", _attend)


class FusionOracle:
    """Runs any set of positions of a prompt over KV that is given for the others."""

    def __init__(self, model):
        self.model, self.core = model, model.model
        config, attention = self.core.config, self.core.layers[0].self_attn
        self.shape = (config.num_hidden_layers, config.num_key_value_heads, attention.head_dim)
        self._apply = sys.modules[type(attention).__module__].apply_rotary_pos_emb

    def rotated(self, states, positions):
        """Return queries or keys [1, heads, n, head_dim] turned to n positions."""
        cos, sin = self.core.rotary_emb(states, positions[None])
        return self._apply(states, states, cos, sin)[0]

    @torch.inference_mode()
    def run(self, token_ids, stored=(), active=None, limits=None):
        """Compute the active positions (default: all that no stored KV covers).

        stored: (start, PlainKv) pairs; limits: the last position each active one sees, if not its
        own. Returns logits [active, vocabulary], the KV of the whole row, and the last layer's
        turned queries [heads, active, head_dim]. `weights` holds each layer's attention.
        """
        layers, kv_heads, head_dim = self.shape
        keys = torch.zeros(layers, kv_heads, len(token_ids), head_dim)
        values = torch.zeros_like(keys)
        known = torch.zeros(len(token_ids), dtype=torch.bool)
        for start, kv in stored:
            stop = start + kv.keys.shape[2]
            keys[:, :, start:stop], values[:, :, start:stop] = kv.keys, kv.values
            known[start:stop] = True
        active = (~known).nonzero()[:, 0] if active is None else torch.as_tensor(active)
        known[active] = True
        limits = torch.as_tensor(active if limits is None else limits)
        row = _Row(keys, values, known, active, limits, self.rotated)
        self.weights = row.weights
        hidden = self.core.embed_tokens(torch.tensor(token_ids)[active][None])
        cos, sin = self.core.rotary_emb(hidden, active[None])
        plain = torch.ones_like(cos), torch.zeros_like(sin)  # the layers themselves turn nothing
        config, before = self.core.config, self.core.config._attn_implementation
        config._attn_implementation = "fusion_oracle"  # all layers share it
        for layer in self.core.layers:
            hidden = layer(hidden, attention_mask=None, position_embeddings=plain, oracle_row=row)
        config._attn_implementation = before
        logits = self.model.lm_head(self.core.norm(hidden))[0]
        return logits, PlainKv(keys, values), row.queries[-1]

    def chunk_kv(self, prefix, chunk):
        """Return the KV of a chunk right after a prefix."""
        _, kv, _ = self.run([*prefix, *chunk])
        return PlainKv(kv.keys[:, :, len(prefix) :], kv.values[:, :, len(prefix) :])
