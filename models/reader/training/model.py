"""The reader's network: a small Llama whose first layers start out as heads that look things up.

A random start needs millions of tokens before heads that copy ("induction heads", Olsson et al.
2022) appear, and more before questions use them. Here heads that look at the token before, at the
last words, and at the places where such words stood are written into the first two layers;
training takes it from there.
"""

from dataclasses import dataclass

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

ROPE_THETA = 500_000.0
HEAD_DIM = 64
_CONSTANT = 0.32  # value of embedding dimension 0, the same for every token
_IDENTITY_GAIN = 3.0  # how much stronger the dimensions are that tell one token from another
# Rotary pairs of a head of 64 dimensions, fastest first.
_ONE_TOKEN = range(10)  # together they single out one distance
_WINDOW = range(5, 15)  # together they make a window of about twelve words
_NEAR = range(6, 12)  # together they tell the last few dozen words from the rest
_SLOW = range(12, 32)  # slow enough to match content far away


@dataclass(frozen=True, slots=True)
class Shape:
    hidden: int
    layers: int
    heads: int
    feed_forward: int


CPU_SHAPE = Shape(hidden=256, layers=6, heads=4, feed_forward=256)
GPU_SHAPE = Shape(hidden=384, layers=8, heads=6, feed_forward=1024)


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


def _rows(head: int) -> slice:
    return slice(head * HEAD_DIM, (head + 1) * HEAD_DIM)


@dataclass(frozen=True, slots=True)
class _Head:
    """One attention head of a layer, to be written rather than learned."""

    layer: LlamaDecoderLayer
    index: int

    def attend_by_distance(
        self, distance: int, pairs: range, strength: float, sign: int = 1
    ) -> None:
        """Attend around the token `distance` places before, whatever the tokens are.

        The score is a sum of cosines of the rotary pairs with its peak at `distance`: fast pairs
        give one token, slower ones a window; with sign -1 the window is where it does not look.
        """
        start = self.index * HEAD_DIM
        query, key = self.layer.self_attn.q_proj.weight, self.layer.self_attn.k_proj.weight
        query[_rows(self.index)] = 0
        key[_rows(self.index)] = 0
        for pair in pairs:
            angle = torch.tensor(distance * ROPE_THETA ** (-2 * pair / HEAD_DIM))
            query[start + pair, 0] = strength
            key[start + pair, 0] = sign * strength * torch.cos(angle)
            key[start + HEAD_DIM // 2 + pair, 0] = sign * strength * torch.sin(angle)

    def match(self, asked: torch.Tensor, offered: torch.Tensor, strength: float) -> None:
        """Add a score for `asked` here being like `offered` there. Both: [<= HEAD_DIM, hidden]."""
        start = self.index * HEAD_DIM
        query, key = self.layer.self_attn.q_proj.weight, self.layer.self_attn.k_proj.weight
        slots = [d for pair in _SLOW for d in (pair, pair + HEAD_DIM // 2)]
        for slot, wanted, given in zip(slots, asked, offered, strict=False):
            query[start + slot] = strength * wanted
            key[start + slot] = strength * given

    def carry(self, read: torch.Tensor, write: torch.Tensor, gain: float) -> None:
        """Take the dimensions `read` from where the head looks to the dimensions `write`."""
        value, output = self.layer.self_attn.v_proj.weight, self.layer.self_attn.o_proj.weight
        rows = _rows(self.index)
        value[rows] = 0
        output[:, rows] = 0
        value[rows.start : rows.start + len(read)] = read
        output[:, rows.start : rows.start + len(write)] = gain * write.T


@torch.no_grad()
def _write_heads(model: LlamaForCausalLM, common: list[int], generator: torch.Generator) -> None:
    first, second, *later = model.model.layers
    embeddings = model.model.embed_tokens.weight
    basis = _orthonormal(model.config.hidden_size, generator)
    # disjoint dimensions: the token itself, the one before, the one before that, the last words
    token, before, two_before, around = basis.split(HEAD_DIM)[:4]
    embeddings += _IDENTITY_GAIN * embeddings @ token.T @ token
    embeddings[:, 0] = _CONSTANT
    # the last words are taken without the commonest tokens, which say nothing about a sentence
    frequent = torch.linalg.qr(embeddings[common].T)[0]
    telling = token - token @ frequent @ frequent.T
    asked = around - around @ frequent @ frequent.T

    head = _Head(first, 0)
    head.attend_by_distance(1, _ONE_TOKEN, 0.88)
    head.carry(token, before, 0.1)
    head = _Head(first, 1)
    head.attend_by_distance(2, _ONE_TOKEN, 0.88)
    head.carry(token, two_before, 0.1)
    head = _Head(first, 2)
    head.attend_by_distance(0, _WINDOW, 0.44)
    head.carry(telling[: len(around)], around, 0.5)

    # what followed this token before; what followed it one later; what stood among such words;
    # what followed one of the words asked about
    for index, wanted, given, strength, far in (
        (0, token, before, 2.1, False),
        (1, token, two_before, 1.0, False),
        (2, asked, asked, 2.3, True),
        (3, asked, before, 2.0, True),
    ):
        head = _Head(second, index)
        # the words of the question itself are the most similar of all: look further away
        head.attend_by_distance(0, _NEAR, 0.5 if far else 0.0, sign=-1)
        head.match(wanted, given, strength)
        head.carry(token, token, 0.6 if far else 1.6)
    for layer in later:
        attention = layer.self_attn
        for index in range(model.config.num_attention_heads):
            for pair in _SLOW:
                for row in (index * HEAD_DIM + pair, index * HEAD_DIM + HEAD_DIM // 2 + pair):
                    attention.k_proj.weight[row] += 0.7 * attention.q_proj.weight[row]
        attention.o_proj.weight += 0.1 * attention.v_proj.weight.T


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
        model.model.norm.weight.fill_(1.4)
    _write_heads(model, common, generator)
    return model
