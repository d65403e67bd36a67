"""Attention of one row over keys where they lie, its own or shared, by a compiled kernel. (ADR 23)

For whole prompts, and as FusionRAG's sparse attention on a CPU: the queries of what is computed
anew, each at its own place, over keys in the pages of many chunks. (§4.3)
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heddle.engines.llm.attention.compiled_kernel import RowKernel, Work
from heddle.engines.llm.attention.key_rotation import PairRotation
from heddle.engines.llm.step_batch import BatchRow
from heddle.kv.page_store import PageStore


@dataclass(frozen=True, slots=True, eq=False)
class RowAttention:
    """Where the keys of one row lie, for all layers of a step: its own first, then chunk by chunk.

    The queries are rotated back for each chunk, so no key is copied or rotated.

    Shapes: last_seen [queries] int32; starts [groups + 1] int64; slots and places [context] int32;
    factors [groups, head_dim].
    Mutates: `work`, which points to the others, is of the layer that is computed.
    """

    kernel: RowKernel
    last_seen: NDArray[np.int32]
    starts: NDArray[np.int64]
    slots: NDArray[np.int32]
    places: NDArray[np.int32]
    factors: Tensor
    work: Work = field(init=False)

    def __post_init__(self) -> None:
        work = Work(
            last_seen=self.last_seen.ctypes.data,
            groups=len(self.factors),
            starts=self.starts.ctypes.data,
            slots=self.slots.ctypes.data,
            places=self.places.ctypes.data,
            factors=self.factors.data_ptr(),
            queries=len(self.last_seen),
            head_dim=self.factors.shape[1],
        )
        object.__setattr__(self, "work", work)

    @classmethod
    def of(cls, row: BatchRow, kernel: RowKernel, rotation: PairRotation) -> "RowAttention":
        """Return what the kernel needs to know of a row."""
        places = [row.own_places(), *(keys.places for keys in row.shared)]
        slots = row.slots_by_part()
        # The kernel reads as many of one as there are of the other.
        assert [*map(len, slots)] == [*map(len, places)], "keys without slots"
        back = torch.tensor([0, *(-keys.rotation for keys in row.shared)])
        last_seen = row.places
        if last_seen is None:
            last_seen = np.arange(row.context - row.queries, row.context)
        return cls(
            kernel,
            last_seen.astype(np.int32),
            np.cumsum([0, *map(len, places)]),
            np.concatenate(slots).astype(np.int32),
            np.concatenate(places).astype(np.int32),
            torch.view_as_real(rotation.factors(back)).flatten(1),
        )

    def attend(self, store: PageStore, layer: int, query: Tensor, scaling: float) -> Tensor:
        """Return the row's output.

        Shapes: query [heads, queries, head_dim] float32; result [queries, heads, head_dim].
        """
        keys, values = store.keys[layer], store.values[layer]
        heads, queries, head_dim = query.shape
        own = query if query.stride(2) == 1 else query.contiguous()
        out = torch.empty(queries, heads, head_dim)
        work = self.work
        work.query, work.query_head, work.query_row = own.data_ptr(), own.stride(0), own.stride(1)
        work.keys, work.values, work.pool_head = keys.data_ptr(), values.data_ptr(), keys.stride(0)
        work.heads, work.kv_heads, work.scaling = heads, len(keys), scaling
        work.out = out.data_ptr()
        self.kernel.run(work, torch.get_num_threads())
        return out
