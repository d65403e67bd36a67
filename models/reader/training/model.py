"""The reader's network: a small Llama that starts out knowing how to copy and how to name.

A random start needs millions of tokens before heads that copy ("induction heads", Olsson et al.
2022) appear, and longer until a head tells whose value it looks at. Here such heads are written
into a new network, each with a part of the residual stream of its own: what a token is, what
stood before it, the words around it, whose it is, and what comes next. Training takes it from
there.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

from .sights import HEADS, NAMING, Role

ROPE_THETA = 1e8  # so that from _SLOW_PAIR on, rotary pairs hardly turn within a prompt
_SLOW_PAIR = 6
_TOKEN = 4.0  # norm of what a token is
_CONSTANT = 1.7  # embedding dimension 0, the same for every token
_TOKEN_DIMS = 48
_CARRIED_DIMS = 19  # of what one head carries: what the slow pairs of another one can compare
_LOOK_BACK = (1, 1, 2)  # how far back the first layer's heads look
_WINDOW_STRENGTHS = (0.8, 0.5)  # a window of about 10, 16 tokens


@dataclass(frozen=True, slots=True)
class Shape:
    hidden: int
    layers: int
    heads: int
    feed_forward: int


CPU_SHAPE = Shape(hidden=256, layers=6, heads=8, feed_forward=256)
GPU_SHAPE = Shape(hidden=384, layers=8, heads=12, feed_forward=768)


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
        tie_word_embeddings=False,
        pad_token_id=pad,
        bos_token_id=bos,
        eos_token_id=eos,
    )


@dataclass(frozen=True, slots=True)
class _Parts:
    """The residual stream's parts, each with orthonormal rows [dims, hidden].

    token: what a token is; answer: what comes next; before: what stood before; around: the words
    around; owner: whose it is; mixes: what of `token` the heads of `before` carry.
    """

    token: Tensor
    answer: Tensor
    before: list[Tensor]
    around: list[Tensor]
    owner: list[Tensor]
    mixes: list[Tensor]


def _orthonormal(rows: int, width: int, generator: torch.Generator) -> Tensor:
    columns = torch.randn(width, rows, generator=generator)
    orthogonal: Tensor = torch.linalg.qr(columns)[0]
    return orthogonal.T.contiguous()


def _parts(hidden: int, generator: torch.Generator) -> _Parts:
    basis = torch.zeros(hidden - 1, hidden)
    basis[:, 1:] = _orthonormal(hidden - 1, hidden - 1, generator)  # dimension 0 is the constant
    n_carried = len(_LOOK_BACK) + len(_WINDOW_STRENGTHS) + len(NAMING)
    sizes = [_TOKEN_DIMS] * 2 + [_CARRIED_DIMS] * n_carried
    token, answer, *carried = basis[: sum(sizes)].split(sizes)
    windows = len(_LOOK_BACK) + len(_WINDOW_STRENGTHS)
    first = [_orthonormal(_CARRIED_DIMS, _TOKEN_DIMS, generator) @ token for _ in range(2)]
    return _Parts(
        token,
        answer,
        carried[: len(_LOOK_BACK)],
        carried[len(_LOOK_BACK) : windows],
        carried[windows:],
        [*first, first[1]],
    )


class _Writer:
    """Writes one head of a layer."""

    def __init__(self, layer: LlamaDecoderLayer, head: int, head_dim: int) -> None:
        self._attention = layer.self_attn
        self._rows = slice(head * head_dim, (head + 1) * head_dim)
        self._head_dim = head_dim
        self._slow = [d for p in range(_SLOW_PAIR, head_dim // 2) for d in (p, p + head_dim // 2)]

    def silence(self) -> None:
        """Forget what the head compares."""
        self._attention.q_proj.weight[self._rows] = 0
        self._attention.k_proj.weight[self._rows] = 0

    def look_around(self, distance: int, pairs: range, strength: float, sign: int = 1) -> None:
        """Attend around the token `distance` places before, whatever the tokens are.

        The score is a sum of cosines of the rotary pairs, with its peak at `distance`; fast pairs
        give one token, slower ones a window. sign -1 looks away from there.
        """
        half, start = self._head_dim // 2, self._rows.start
        query, key = self._attention.q_proj.weight, self._attention.k_proj.weight
        for pair in pairs:
            angle = torch.tensor(distance * ROPE_THETA ** (-pair / half))
            query[start + pair, 0] = strength
            key[start + pair, 0] = sign * strength * torch.cos(angle)
            key[start + half + pair, 0] = sign * strength * torch.sin(angle)

    def compare(self, asked: Tensor, kept: Tensor, strength: float) -> None:
        """Attend where `kept` holds what `asked` holds here; adds to what is compared already."""
        rows = [self._rows.start + d for d in self._slow[: len(asked)]]
        self._attention.q_proj.weight[rows] += strength * asked
        self._attention.k_proj.weight[rows] += strength * kept

    def carry(self, seen: Tensor, written: Tensor, gain: float) -> None:
        """Write what the attended tokens hold in `seen` into `written` here."""
        rows = slice(self._rows.start, self._rows.start + len(seen))
        self._attention.v_proj.weight[rows] = seen
        self._attention.o_proj.weight[:, rows] = gain * written.T


@torch.no_grad()
def _write_heads(model: LlamaForCausalLM, common: list[int], generator: torch.Generator) -> None:
    config = model.config
    head_dim = config.hidden_size // config.num_attention_heads
    layers = model.model.layers
    parts = _parts(config.hidden_size, generator)
    embedding = model.model.embed_tokens.weight
    what = torch.randn(config.vocab_size, _TOKEN_DIMS, generator=generator)
    what /= what.norm(dim=1, keepdim=True)
    embedding += _TOKEN * what @ parts.token
    embedding[:, 0] = _CONSTANT
    model.lm_head.weight += what @ parts.answer
    halves = list(zip(parts.token.chunk(2), parts.answer.chunk(2), strict=True))

    def head(layer: int, index: int) -> _Writer:
        return _Writer(layers[layer], index, head_dim)

    for i, distance in enumerate(_LOOK_BACK):
        back = head(0, i)
        back.silence()
        back.look_around(distance, range(5), 1.12)
        back.carry(parts.mixes[i], parts.before[i], 0.25)
    # blind to the commonest tokens, which say nothing about what a sentence is about
    frequent = torch.linalg.qr((what[common] @ parts.token).T)[0]
    for i, strength in enumerate(_WINDOW_STRENGTHS):
        window = head(0, len(_LOOK_BACK) + i)
        window.silence()
        window.look_around(0, range(2, 6), strength)
        seen = parts.mixes[i] - parts.mixes[i] @ frequent @ frequent.T
        window.carry(seen, parts.around[i], 0.8)
    # what stands here, against what stood before that place
    for i in range(2):
        match = head(1, i)
        match.silence()
        match.compare(parts.mixes[i], parts.before[i], 1.3)
        match.carry(*halves[i], 0.5)
    # and what stood before here, against what stood before that
    head(1, 0).compare(parts.before[1], parts.before[2], 0.9)
    for i, (seen, written) in enumerate(halves):
        for j, around in enumerate(parts.around):
            similar = head(1, 2 + 2 * j + i)
            similar.silence()
            # the words of the question itself are the most similar of all: look further away
            similar.look_around(0, range(2, 5), 0.6, sign=-1)
            similar.compare(around, around, 1.7)
            similar.carry(seen, written, 0.3)
    for i, (layer, index) in enumerate(NAMING):
        mix = _orthonormal(len(parts.owner[i]), _TOKEN_DIMS, generator) @ parts.token
        head(layer, index).carry(mix, parts.owner[i], 1.2)
        if (layer, index) == NAMING[-1]:  # the answer of a first hop is a name, too
            for bridge in HEADS[Role.BRIDGE]:
                head(*bridge).carry(mix, parts.owner[i], 1.2)
    for i, (layer, index) in enumerate(HEADS[Role.SOURCE]):
        source = head(layer, index)
        source.silence()
        owner = parts.owner[i % len(parts.owner)]
        source.compare(owner, owner, 1.2)
        around = parts.around[i % 2]
        source.compare(around, around, 1.5)
        source.carry(*halves[i % 2], 1.2)


def written_weights(model: LlamaForCausalLM) -> list[nn.Parameter]:
    """The first two layers' attention, all of whose heads are written."""
    return [
        projection.weight
        for layer in model.model.layers[:2]
        for projection in (
            layer.self_attn.q_proj,
            layer.self_attn.k_proj,
            layer.self_attn.v_proj,
            layer.self_attn.o_proj,
        )
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
            std = 0.02 if "embed" in name or "lm_head" in name else 0.03
            if "down_proj" in name or "o_proj" in name:
                std = 0.003  # nearly silent, so that the written heads are heard
            weight.copy_(torch.randn(weight.shape, generator=generator) * std)
        model.model.norm.weight.fill_(2.0)
        for layer in model.model.layers[2:]:
            attention = layer.self_attn
            attention.k_proj.weight += 0.7 * attention.q_proj.weight  # what is alike is looked at
    _write_heads(model, common, generator)
    return model
