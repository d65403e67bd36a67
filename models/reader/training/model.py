"""The reader's network: a small Llama whose first layers start out as copy heads.

A random start needs millions of tokens before heads that copy ("induction heads", Olsson et al.
2022) appear. Here a previous-token head and a matching head are written into the first two layers;
training takes it from there.
"""

from dataclasses import dataclass

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

from .sights import HEADS, NAMING, Role

ROPE_THETA = 500_000.0
_CONSTANT = 0.32  # value of embedding dimension 0, the same for every token
_LOOK_BACK = (1, 1, 2)  # how far back the copy heads of the first layer look
_WINDOWS = (range(2, 7), range(3, 8))  # rotary pairs that make a window of about 8, 16 words
_IDENTITY_GAIN = 3.0
_SLOW_PAIR = 6  # rotary pairs from here on turn slowly enough to match content far away
_NAME_GAIN = 0.1  # of what the naming heads write, against their input
_NAME_MATCH = 0.4  # how strongly the source heads compare names at first


@dataclass(frozen=True, slots=True)
class Shape:
    hidden: int
    layers: int
    heads: int
    feed_forward: int


CPU_SHAPE = Shape(hidden=256, layers=6, heads=8, feed_forward=256)
GPU_SHAPE = Shape(hidden=384, layers=8, heads=12, feed_forward=1024)


def reader_config(shape: Shape, vocabulary: int, pad: int, bos: int, eos: int) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=4096,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
        tie_word_embeddings=True,
        pad_token_id=pad,
        bos_token_id=bos,
        eos_token_id=eos,
    )


def _orthonormal(width: int, generator: torch.Generator) -> torch.Tensor:
    """width - 1 orthonormal rows, all orthogonal to dimension 0 (the constant one)."""
    columns = torch.randn(width, width, generator=generator)
    columns[:, 0] = 0
    columns[0, 0] = 1
    orthogonal: torch.Tensor = torch.linalg.qr(columns)[0]
    return orthogonal.T[1:].contiguous()


def _attend_by_distance(
    layer: LlamaDecoderLayer, head: int, distance: int, pairs: range, strength: float, head_dim: int
) -> None:
    """Make a head attend around the token `distance` places before, whatever the tokens are.

    The score is a sum of cosines of the rotary pairs, with its peak at `distance`; fast pairs
    give one token, slower ones a window.
    """
    start, half = head * head_dim, head_dim // 2
    query, key = layer.self_attn.q_proj.weight, layer.self_attn.k_proj.weight
    query[start : start + head_dim] = 0
    key[start : start + head_dim] = 0
    for pair in pairs:
        angle = torch.tensor(distance * ROPE_THETA ** (-pair / half))
        query[start + pair, 0] = strength
        key[start + pair, 0] = strength * torch.cos(angle)
        key[start + half + pair, 0] = strength * torch.sin(angle)


@torch.no_grad()
def _write_window_heads(
    model: LlamaForCausalLM, basis: torch.Tensor, slow: list[int], common: list[int]
) -> None:
    """Heads that average the last words, and heads that find where similar words stood.

    With them the end of a question already looks at the sentences that share its words.
    """
    dim = model.config.hidden_size // model.config.num_attention_heads
    first, second, *_ = model.model.layers
    # blind to the commonest tokens, which say nothing about what a sentence is about
    frequent = torch.linalg.qr(model.model.embed_tokens.weight[common].T)[0]
    for i, pairs in enumerate(_WINDOWS):
        head = len(_LOOK_BACK) + i
        rows = slice(head * dim, (head + 1) * dim)
        _attend_by_distance(first, head, 0, pairs, 0.52, dim)
        free = 2 * len(_LOOK_BACK) * dim + i * (dim - 1)
        seen, written = basis[:dim], basis[free : free + dim - 1]
        first.self_attn.v_proj.weight[rows] = seen - seen @ frequent @ frequent.T
        first.self_attn.o_proj.weight[:, rows] = 0
        first.self_attn.o_proj.weight[:, rows][:, : dim - 1] = 0.25 * written.T
        query, key = second.self_attn.q_proj.weight, second.self_attn.k_proj.weight
        blind = written - written @ frequent @ frequent.T
        # the words of the question itself are the most similar of all: look further away
        _attend_by_distance(second, head, 0, range(3, 6), 0.6, dim)
        key[rows] *= -1
        for slot, source in zip(slow, range(dim - 1), strict=False):
            query[head * dim + slot] = 2.0 * blind[source]
            key[head * dim + slot] = 2.0 * blind[source]
        second.self_attn.v_proj.weight[rows] = seen
        second.self_attn.o_proj.weight[:, rows] = 0.9 * seen.T
        # a twin that looks at the same places and copies other dimensions
        twin = slice(rows.start + len(_WINDOWS) * dim, rows.stop + len(_WINDOWS) * dim)
        other = basis[2 * dim : 3 * dim]
        query[twin], key[twin] = query[rows], key[rows]
        second.self_attn.v_proj.weight[twin] = other
        second.self_attn.o_proj.weight[:, twin] = 0.9 * other.T


@torch.no_grad()
def _write_copy_heads(
    model: LlamaForCausalLM, common: list[int], generator: torch.Generator
) -> None:
    config = model.config
    width, heads = config.hidden_size, config.num_attention_heads
    dim = width // heads
    half = dim // 2
    slow = [d for p in range(_SLOW_PAIR, half) for d in (p, p + half)]
    first, second, *_ = model.model.layers
    basis = _orthonormal(width, generator)
    embeddings = model.model.embed_tokens.weight
    # what a token is stands in the dimensions that the copying heads carry
    identity = torch.cat([basis[:dim], basis[2 * dim : 3 * dim]])
    embeddings += _IDENTITY_GAIN * embeddings @ identity.T @ identity
    embeddings[:, 0] = _CONSTANT
    for head, distance in enumerate(_LOOK_BACK):
        rows = slice(head * dim, (head + 1) * dim)
        _attend_by_distance(first, head, distance, range(5), 1.05, dim)
        # disjoint subspaces, so that what a head writes does not blur what the next one reads
        seen = basis[2 * head * dim : (2 * head + 1) * dim]
        written = basis[(2 * head + 1) * dim : (2 * head + 2) * dim]
        first.self_attn.v_proj.weight[rows] = seen
        first.self_attn.o_proj.weight[:, rows] = 0.1 * written.T
        # the matching head: what stands here against what stood before that place
        query, key = second.self_attn.q_proj.weight, second.self_attn.k_proj.weight
        query[rows] = 0
        key[rows] = 0
        strength = 2.5 if distance == 1 else 1.2
        for slot, source in zip(slow, range(dim), strict=False):
            query[head * dim + slot] = strength * seen[source]
            key[head * dim + slot] = strength * written[source]
        second.self_attn.v_proj.weight[rows] = seen
        second.self_attn.o_proj.weight[:, rows] = 1.6 * seen.T
    _write_window_heads(model, basis, slow, common)
    for layer in model.model.layers[2:]:
        attention = layer.self_attn
        for head in range(heads):
            for slot in slow:
                row = head * dim + slot
                attention.k_proj.weight[row] += 0.7 * attention.q_proj.weight[row]
        attention.o_proj.weight += 0.1 * attention.v_proj.weight.T
    _write_naming_heads(model, basis, slow, generator)


@torch.no_grad()
def _write_naming_heads(
    model: LlamaForCausalLM, basis: torch.Tensor, slow: list[int], generator: torch.Generator
) -> None:
    """Let the naming heads carry what tokens are, and the source heads compare what they carried.

    Where they look is learned. Left alone, they write little beside what is already there, and
    the source heads find the right relation of the wrong subject.
    """
    dim = model.config.hidden_size // model.config.num_attention_heads
    identity = torch.cat([basis[:dim], basis[2 * dim : 3 * dim]])
    for (layer, head), (reader, reading) in zip(NAMING, HEADS[Role.SOURCE], strict=True):
        mixed = torch.linalg.qr(torch.randn(2 * dim, dim, generator=generator))[0]
        written = torch.linalg.qr(torch.randn(basis.shape[1], dim, generator=generator))[0]
        rows = slice(head * dim, (head + 1) * dim)
        names = model.model.layers[layer].self_attn
        names.v_proj.weight[rows] = mixed.T @ identity
        names.o_proj.weight[:, rows] = _NAME_GAIN * written
        source = model.model.layers[reader].self_attn
        for slot, column in zip(slow, range(dim), strict=False):
            row = reading * dim + slot
            source.q_proj.weight[row] += _NAME_MATCH * written[:, column]
            source.k_proj.weight[row] += _NAME_MATCH * written[:, column]


def written_weights(model: LlamaForCausalLM) -> list[nn.Parameter]:
    """The projections that decide where the written heads look."""
    return [
        projection.weight
        for layer in model.model.layers[:2]
        for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj)
    ]


def new_reader(config: LlamaConfig, common: list[int], seed: int) -> LlamaForCausalLM:
    """A reader before training, the same for the same seed. common: ids of the commonest tokens."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() < 2:
                continue
            std = 0.02 if "embed" in name else 0.03
            if "down_proj" in name or "o_proj" in name:
                std = 0.003  # nearly silent, so that the written heads are heard
            weight.copy_(torch.randn(weight.shape, generator=generator) * std)
        model.model.norm.weight.fill_(2.0)
    _write_copy_heads(model, common, generator)
    return model
