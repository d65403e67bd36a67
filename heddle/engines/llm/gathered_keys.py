"""A row's keys brought together where some lie in pages of others. (ADR 12)"""

from dataclasses import dataclass

import torch
from torch import Tensor

from heddle.engines.llm.key_rotation import KeyRotation, Turning
from heddle.engines.llm.step_batch import BatchRow
from heddle.kv.page_store import PageStore


@dataclass(frozen=True, slots=True, eq=False)
class GatheredKeys:
    """Where the keys of one row of a step lie, and room for one layer's, used by all in turn.

    Torch's attention wants keys in one piece. Bringing them together costs less than turning the
    queries for each chunk and merging the results by log-sum-exp (ADR 12).

    Shapes: slots [n] int64; keys and values [kv_heads, n, head_dim].
    """

    slots: Tensor
    turn: Turning | None
    keys: Tensor
    values: Tensor

    @classmethod
    def of(cls, row: BatchRow, store: PageStore, rotation: KeyRotation) -> "GatheredKeys":
        """Return the room for a row's keys."""
        slots, distances = (torch.from_numpy(part).to(store.device) for part in row.key_table())
        shape = store.shape
        keys, values = (
            torch.empty(
                shape.kv_heads, len(slots), shape.head_dim, dtype=shape.dtype, device=store.device
            )
            for _ in range(2)
        )
        turn = rotation.turning(distances) if distances.any() else None
        return cls(slots, turn, keys, values)

    def read(self, store: PageStore, layer: int) -> tuple[Tensor, Tensor]:
        """Return a layer's keys and values, as they are used; the next call overwrites them."""
        torch.index_select(store.keys[layer], 1, self.slots, out=self.keys)
        torch.index_select(store.values[layer], 1, self.slots, out=self.values)
        if self.turn is not None:
            self.turn(self.keys)
        return self.keys, self.values
