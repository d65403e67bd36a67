"""The loss on where the shown heads look; `sights` says where that ought to be."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaForCausalLM

from .sights import HEADS, Look, Role

_SHARPNESS = 10.0  # of the comparison of names
_TINY = 1e-6  # of attention: keeps the logarithm finite


class SightLoss:
    """The cross-entropy between the shown heads' attention and where they ought to look."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        self._head_dim = model.config.head_dim
        self._states: dict[tuple[int, str], Tensor] = {}
        self._angles: tuple[Tensor, Tensor] = (torch.zeros(()), torch.zeros(()))
        first, *_ = model.model.layers
        first.self_attn.register_forward_pre_hook(self._keep_angles, with_kwargs=True)
        for index in {layer for heads in HEADS.values() for layer, _ in heads}:
            attention = model.model.layers[index].self_attn
            for name in ("q_proj", "k_proj", "v_proj"):
                getattr(attention, name).register_forward_hook(self._keep(index, name))

    def _keep_angles(self, _: object, args: object, given: dict[str, Any]) -> None:
        self._angles = given["position_embeddings"]

    def _keep(self, index: int, name: str) -> Callable[..., None]:
        def keep(_: object, args: object, output: Tensor) -> None:
            self._states[index, name] = output

        return keep

    def __call__(self, rows: list[list[Look]]) -> tuple[Tensor, dict[str, float]]:
        """The losses of the last forward pass, added up, and how well each role looked.

        rows: the looks of each row of the batch. The second result lies between 0 and 1: the
        attention on the tokens shown, over the heads and looks of a role, and under "told_apart"
        how surely the name in a question is matched with its subject.
        """
        losses: dict[str, list[Tensor]] = {}
        for i, shown in enumerate(rows):
            carried = {}
            for role, heads in HEADS.items():
                wanted = [look for look in shown if look.role is role]
                if not wanted:
                    continue
                paid = [(self._attention(*head, i, wanted), head) for head in heads]
                losses.setdefault(role.value, []).extend(_missed(a, wanted) for a, _ in paid)
                if role in (Role.OWNER, Role.ASKED):
                    names = [self._carried(*head, i, attention) for attention, head in paid]
                    carried[role.value] = _Names(
                        torch.cat(names, -1), [look.who for look in wanted]
                    )
            if len(carried) == 2 and (confused := _confused(**carried)).numel():
                losses.setdefault("told_apart", []).append(confused)
        self._states.clear()
        missed = {role: torch.cat(found) for role, found in losses.items()}
        total = sum((m.mean() for m in missed.values()), torch.zeros(()))
        return total, {role: float((-m.detach()).exp().mean()) for role, m in missed.items()}

    def _head_states(self, name: str, layer: int, head: int, row: int) -> Tensor:
        """What a projection gave for a head. Returns [tokens, head_dim]."""
        dims = slice(head * self._head_dim, (head + 1) * self._head_dim)
        return self._states[layer, name][row, :, dims]

    def _attention(self, layer: int, head: int, row: int, wanted: list[Look]) -> Tensor:
        """The attention a head pays from every look's token. Returns [looks, tokens]."""
        last = max(look.at for look in wanted) + 1
        cos, sin = (angles[row if len(angles) > 1 else 0, :last] for angles in self._angles)
        at = torch.tensor([look.at for look in wanted], device=cos.device)
        query = _turned(self._head_states("q_proj", layer, head, row)[at], cos[at], sin[at])
        key = _turned(self._head_states("k_proj", layer, head, row)[:last], cos, sin)
        scores = query @ key.T * self._head_dim**-0.5
        later = torch.arange(last, device=cos.device) > at[:, None]
        return scores.masked_fill(later, float("-inf")).softmax(-1)

    def _carried(self, layer: int, head: int, row: int, attention: Tensor) -> Tensor:
        """What a head carries to the looks' tokens. Returns [looks, head_dim]."""
        values = self._head_states("v_proj", layer, head, row)
        return attention @ values[: attention.shape[1]]


@dataclass(frozen=True, slots=True)
class _Names:
    """vectors: [looks, width]; who: the subject that each one is of."""

    vectors: Tensor
    who: list[int]


def _confused(owner: _Names, asked: _Names) -> Tensor:
    """How far the names in the questions are from picking their subjects' values (InfoNCE).

    Matching names is all that tells two subjects of a kind apart, and it is learned late when
    only answers are scored. Returns [questions].
    """
    device = owner.vectors.device
    questions = [i for i, who in enumerate(asked.who) if who in owner.who]
    who = torch.tensor([asked.who[i] for i in questions], device=device)
    same = who[:, None] == torch.tensor(owner.who, device=device)
    alike = F.cosine_similarity(asked.vectors[questions, None], owner.vectors[None], dim=-1)
    scores = alike * _SHARPNESS
    return scores.logsumexp(-1) - scores.masked_fill(~same, float("-inf")).logsumexp(-1)


def _missed(attention: Tensor, wanted: list[Look]) -> Tensor:
    """What each look lost. attention: [looks, tokens]. Returns [looks]."""
    groups = [(i, group) for i, look in enumerate(wanted) for group in look.to]
    owner = torch.tensor([i for i, _ in groups], device=attention.device)
    members = [(g, i, p) for g, (i, group) in enumerate(groups) for p in group]
    group, look, place = torch.tensor(members, device=attention.device).T
    zeros = torch.zeros(len(groups), device=attention.device)
    shares = zeros.index_add(0, group, attention[look, place])
    sizes = torch.bincount(owner, minlength=len(wanted)).float()
    missed = -(shares + _TINY).log() - sizes[owner].log()
    zeros = torch.zeros(len(wanted), device=attention.device)
    return zeros.index_add(0, owner, missed / sizes[owner])


def _turned(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = states.shape[-1] // 2
    rotated = torch.cat([-states[:, half:], states[:, :half]], -1)
    return states * cos + rotated * sin
