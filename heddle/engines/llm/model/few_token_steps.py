"""Steps of few tokens, each layer in one call of the compiled kernel. (ADR 62)"""

from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from heddle.engines.llm.attention.context import AttentionContext
from heddle.engines.llm.model.fused_layers import FusedLayer
from heddle.engines.llm.model.layer_room import FewRowsLinear, LayerRoom
from heddle.kernels.borrowed_threads import BORROWED
from heddle.kernels.compiled_kernel import LayerWork, RowKernel
from heddle.kernels.operations import Operations
from heddle.kv.page_store import PageStore

PLANS_MAX: Final = 32  # kept; each takes about 0.1 MB, and 3 ms to make


@dataclass(frozen=True, slots=True, eq=False)
class StepPlan:
    """The operations of each layer, for one number of tokens and at most `threads`.

    Mutates: `attention`, of each layer, points to the rows of the step that runs.
    """

    room: LayerRoom
    layers: tuple[Operations, ...]
    attention: tuple[LayerWork, ...]
    threads: int


class FewTokenSteps:
    """Computes the layers of steps of few tokens, as `FusedLayer.forward` does, number by number.

    Args:
        layers: of a model that `can_run_together`.
        kernel: computes all of each.
        store: the KV pool.
    """

    def __init__(self, layers: tuple[FusedLayer, ...], kernel: RowKernel, store: PageStore) -> None:
        self._layers, self._kernel, self._store = layers, kernel, store
        self._linears = [linear for layer in layers for linear in linears_of(layer)]
        self.tokens_max = min(linear.few_rows_max for linear in self._linears)
        self._plans: dict[tuple[int, int], StepPlan] = {}

    @classmethod
    def of(cls, core: Any, kernel: RowKernel | None, store: PageStore) -> "FewTokenSteps | None":  # noqa: ANN401
        """Return it for a model's decoder; None where the kernel can't compute all of a layer."""
        layers = tuple(core.layers)
        if kernel is None or not all(can_run_together(layer) for layer in layers):
            return None
        return cls(layers, kernel, store)

    def can_run(self, tokens: int, context: AttentionContext) -> bool:
        """Whether a step has few enough tokens, and the kernel computes all its rows."""
        return tokens <= self.tokens_max and context.is_compiled_alone

    def run(self, hidden: Tensor, factors: Tensor, context: AttentionContext) -> Tensor:
        """Return the states behind the last layer.

        Shapes: hidden and result [t, hidden]; factors [t, head_dim / 2] complex64.
        Mutates: writes the KV of the step's tokens.
        """
        plan, compiled = self._plan(len(hidden)), context.compiled
        assert compiled is not None, "the kernel computes all rows of such a step"
        room = plan.room
        room.states.copy_(hidden)
        room.factors.copy_(factors)
        room.slots.copy_(context.slots)
        for work in plan.attention:
            compiled.give_rows(work)
        for layer in plan.layers:
            BORROWED.look()
            layer.run(min(plan.threads, torch.get_num_threads()))
        return room.states + room.attended

    def _plan(self, tokens: int) -> StepPlan:
        threads = torch.get_num_threads()
        plan = self._plans.get((tokens, threads))
        if plan is None:
            if len(self._plans) >= PLANS_MAX:
                self._plans.pop(next(iter(self._plans)))
            plan = self._plans[tokens, threads] = self._planned(tokens, threads)
        return plan

    def _planned(self, tokens: int, threads: int) -> StepPlan:
        scratch_bytes = max(linear.scratch_bytes(threads) for linear in self._linears)
        room = self._layers[0].room(tokens, self._store.shape, scratch_bytes)
        layers = [
            layer.operations(self._kernel, room, self._store, is_first=number == 0)
            for number, layer in enumerate(self._layers)
        ]
        works = (operation.work for layer in layers for operation in layer)
        return StepPlan(
            room,
            tuple(Operations(self._kernel.together, layer) for layer in layers),
            tuple(work for work in works if isinstance(work, LayerWork)),
            threads,
        )


def linears_of(layer: FusedLayer) -> tuple[Any, ...]:
    """Return a layer's linear layers, in the order in which they are computed."""
    attention, mlp = layer.self_attn, layer.mlp
    return attention.qkv_proj, attention.o_proj, mlp.gate_up_proj, mlp.down_proj


def can_run_together(layer: object) -> bool:
    """Whether the compiled kernel can compute all of a layer."""
    if not isinstance(layer, FusedLayer) or not layer.mlp.is_silu:
        return False
    linears = linears_of(layer)
    return all(isinstance(own, FewRowsLinear) and own.few_rows_max for own in linears)
