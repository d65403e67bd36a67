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
        self._model = model
        self._seen: dict[int, tuple[Tensor, tuple[Tensor, Tensor]]] = {}
        for index in {layer for heads in HEADS.values() for layer, _ in heads}:
            attention = model.model.layers[index].self_attn
            attention.register_forward_pre_hook(self._keep(index), with_kwargs=True)

    def _keep(self, index: int) -> Callable[..., None]:
        def keep(_: object, args: object, given: dict[str, Any]) -> None:
            self._seen[index] = (given["hidden_states"], given["position_embeddings"])

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
            if len(carried) == 2:
                losses.setdefault("told_apart", []).append(_confused(**carried))
        self._seen.clear()
        missed = {role: torch.cat(found) for role, found in losses.items()}
        total = sum((m.mean() for m in missed.values()), torch.zeros(()))
        return total, {role: float((-m.detach()).exp().mean()) for role, m in missed.items()}

    def _attention(self, layer: int, head: int, row: int, wanted: list[Look]) -> Tensor:
        """The attention a head pays from every look's token. Returns [looks, tokens]."""
        hidden, (cos, sin) = self._seen[layer]
        attention = self._model.model.layers[layer].self_attn
        dim = attention.head_dim
        rows = slice(head * dim, (head + 1) * dim)
        last = max(look.at for look in wanted) + 1
        here = hidden[row, :last]
        at = torch.tensor([look.at for look in wanted], device=here.device)
        query = here[at] @ attention.q_proj.weight[rows].T
        key = here @ attention.k_proj.weight[rows].T
        place = row if cos.shape[0] > 1 else 0
        cos, sin = cos[place, :last], sin[place, :last]
        query = _turned(query, cos[at], sin[at])
        key = _turned(key, cos, sin)
        scores = query @ key.T * dim**-0.5
        later = torch.arange(last, device=here.device) > at[:, None]
        return scores.masked_fill(later, float("-inf")).softmax(-1)

    def _carried(self, layer: int, head: int, row: int, attention: Tensor) -> Tensor:
        """What a head carries to the looks' tokens. Returns [looks, head_dim]."""
        hidden, _ = self._seen[layer]
        module = self._model.model.layers[layer].self_attn
        rows = slice(head * module.head_dim, (head + 1) * module.head_dim)
        return attention @ (hidden[row, : attention.shape[1]] @ module.v_proj.weight[rows].T)


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
