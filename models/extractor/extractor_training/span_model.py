"""MiniLM with a span head: where an answer begins and ends, and whether there is one.

Parameters are named as in `transformers.BertModel`, so the packaged encoder's weights fit.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from .packed_attention import PackedAttention

N_TYPES = 2  # question, passage


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of the encoder; the defaults are those of the packaged MiniLM."""

    vocabulary: int = 30_522
    positions: int = 512
    width: int = 384
    inner: int = 1_536
    n_layers: int = 6
    n_heads: int = 12
    epsilon: float = 1e-12


@dataclass(frozen=True, slots=True)
class PackedTokens:
    """Sequences one behind the other.

    ids, types, positions: [n_tokens] int64; types tell the question (0) from the passage (1).
    lengths: tokens of each sequence.
    """

    ids: Tensor
    types: Tensor
    positions: Tensor
    lengths: list[int]


class SpanModel(nn.Module):
    """An encoder and three numbers a token: start, end, and (first token) answerability."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embeddings = Embeddings(shape)
        self.encoder = nn.Module()
        self.encoder.layer = nn.ModuleList(Layer(shape) for _ in range(shape.n_layers))
        self.head = nn.Linear(shape.width, 3)
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    def forward(self, tokens: PackedTokens) -> Tensor:
        """Return start, end and answerability logits of each token, [n_tokens, 3] float32."""
        hidden = self.embeddings(tokens)
        for layer in self.encoder.layer:
            hidden = layer(hidden, tokens.lengths)
        return functional.linear(hidden, self.head.weight, self.head.bias).float()

    def freeze_embeddings(self) -> None:
        """Leave the embeddings as the packaged encoder has them: both then share one copy."""
        for parameter in self.embeddings.parameters():
            parameter.requires_grad_(False)


class Embeddings(nn.Module):
    """Word, position and type, added and normalised."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(shape.vocabulary, shape.width)
        self.position_embeddings = nn.Embedding(shape.positions, shape.width)
        self.token_type_embeddings = nn.Embedding(N_TYPES, shape.width)
        self.LayerNorm = nn.LayerNorm(shape.width, eps=shape.epsilon)

    def forward(self, tokens: PackedTokens) -> Tensor:
        """Return the first layer's input, [n_tokens, width]."""
        total = self.word_embeddings(tokens.ids) + self.token_type_embeddings(tokens.types)
        normed = self.LayerNorm(total + self.position_embeddings(tokens.positions))
        if torch.is_autocast_enabled("cpu"):
            normed = normed.to(torch.get_autocast_dtype("cpu"))
        return normed


class Layer(nn.Module):
    """Attention and a feed-forward part, each added to its input and normalised after it."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self.n_heads = shape.n_heads
        self.attention = nn.Module()
        self.attention.self = nn.Module()
        for name in ("query", "key", "value"):
            setattr(self.attention.self, name, nn.Linear(width, width))
        self.attention.output = _Output(width, width, shape.epsilon)
        self.intermediate = nn.Module()
        self.intermediate.dense = nn.Linear(width, shape.inner)
        self.output = _Output(shape.inner, width, shape.epsilon)

    def forward(self, hidden: Tensor, lengths: list[int]) -> Tensor:
        """Return the next layer's input, [n_tokens, width]."""
        parts = [getattr(self.attention.self, name) for name in ("query", "key", "value")]
        weight = torch.cat([part.weight for part in parts])
        bias = torch.cat([part.bias for part in parts])
        projected = functional.linear(hidden, weight, bias)
        attended = PackedAttention.apply(projected, lengths, self.n_heads)
        hidden = self.attention.output(attended, hidden)
        inner = functional.gelu(self.intermediate.dense(hidden))
        return self.output(inner, hidden)


class _Output(nn.Module):
    def __init__(self, n_in: int, n_out: int, epsilon: float) -> None:
        super().__init__()
        self.dense = nn.Linear(n_in, n_out)
        self.LayerNorm = nn.LayerNorm(n_out, eps=epsilon)

    def forward(self, inner: Tensor, residual: Tensor) -> Tensor:
        return self.LayerNorm(self.dense(inner) + residual)


def new_model(shape: Shape, seed: int) -> SpanModel:
    """A model with random weights, as drawn by a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return SpanModel(shape)
