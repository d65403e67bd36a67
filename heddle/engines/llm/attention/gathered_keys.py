"""A row's keys brought together where some lie in pages of others. (ADR 12)"""

from dataclasses import dataclass

import torch
from torch import Tensor

from heddle.engines.llm.attention.key_rotation import KeyRotation, Rotator
from heddle.engines.llm.step_batch import BatchRow
from heddle.kv.page_store import PageStore


@dataclass(frozen=True, slots=True, eq=False)
class GatheredKeys:
    """Where the keys of one row of a step lie, and room for one layer's, used by all in turn.

    Torch's attention wants keys in one piece. Bringing them together costs less than rotating the
    queries for each chunk and merging the results by log-sum-exp (ADR 12).

    A layer's keys are read as a table [kv_heads * slots, head_dim], whose rows torch copies on all
    threads; along a middle dimension it uses one.

    Shapes: entries [kv_heads * n] int64; keys and values [kv_heads, n, head_dim].
    """

    entries: Tensor
    rotate: Rotator | None
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
        rotate = rotation.rotator(distances) if distances.any() else None
        first_of_head = torch.arange(shape.kv_heads, device=store.device) * store.slots
        return cls((first_of_head[:, None] + slots).flatten(), rotate, keys, values)

    def read(self, store: PageStore, layer: int) -> tuple[Tensor, Tensor]:
        """Return a layer's keys and values, as they are used; the next call overwrites them."""
        for pool, out in ((store.keys, self.keys), (store.values, self.values)):
            torch.index_select(pool[layer].flatten(0, 1), 0, self.entries, out=out.flatten(0, 1))
        if self.rotate is not None:
            self.rotate(self.keys)
        return self.keys, self.values
