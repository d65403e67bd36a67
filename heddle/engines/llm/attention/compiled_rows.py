"""Attention of rows over keys where they lie, their own or shared, by a compiled kernel. (ADR 23)

For whole prompts, and as FusionRAG's sparse attention on a CPU: the queries of what is computed
anew, each at its own place, over keys in the pages of many chunks (§4.3). In bfloat16 for decodes,
too. (ADR 45)
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heddle.engines.llm.attention.key_rotation import PairRotation
from heddle.engines.llm.step_batch import BatchRow
from heddle.kernels.compiled_kernel import LayerWork, RowKernel, RowWork
from heddle.kv.page_store import PageStore
from heddle.kv.rows import slots_of


@dataclass(frozen=True, slots=True, eq=False)
class RowKeys:
    """Where the keys of one row lie, for all layers of a step: its own first, then chunk by chunk.

    The queries are rotated back for each chunk, so no key is copied or rotated.

    Shapes: last_seen [queries] int32; starts [groups + 1] int64; slots and places [context] int32;
    factors [groups, head_dim].
    """

    first: int
    last_seen: NDArray[np.int32]
    starts: NDArray[np.int64]
    slots: NDArray[np.int32]
    places: NDArray[np.int32]
    factors: Tensor

    @classmethod
    def of(cls, row: BatchRow, rotation: PairRotation) -> "RowKeys":
        """Return what the kernel needs to know of a row."""
        if not row.shared:
            return cls._of_own_keys(row, rotation)
        places = [row.own_places(), *(keys.places for keys in row.shared)]
        slots = row.slots_by_part()
        # The kernel reads as many of one as there are of the other.
        assert [*map(len, slots)] == [*map(len, places)], "keys without slots"
        back = torch.tensor([0, *(-keys.rotation for keys in row.shared)])
        last_seen = row.places
        if last_seen is None:
            last_seen = np.arange(row.context - row.queries, row.context)
        return cls(
            row.query_start,
            last_seen.astype(np.int32),
            np.cumsum([0, *map(len, places)]),
            np.concatenate(slots).astype(np.int32),
            np.concatenate(places).astype(np.int32),
            torch.view_as_real(rotation.factors(back)).flatten(1),
        )

    @classmethod
    def _of_own_keys(cls, row: BatchRow, rotation: PairRotation) -> "RowKeys":
        """Return it for a row whose keys are one group, in a few operations: most that decode."""
        every = np.arange(row.context, dtype=np.int32)
        slots = slots_of(row.runs).astype(np.int32)
        assert len(slots) == len(every), "keys without slots"
        last_seen = every[row.context - row.queries :] if row.places is None else row.places
        return cls(
            row.query_start,
            last_seen.astype(np.int32),
            np.asarray((0, row.context), np.int64),
            slots,
            every,
            rotation.no_rotation,
        )

    def work(self) -> RowWork:
        """Return pointers to all of it: they are valid as long as it is kept."""
        return RowWork(
            first=self.first,
            queries=len(self.last_seen),
            last_seen=self.last_seen.ctypes.data,
            groups=len(self.factors),
            starts=self.starts.ctypes.data,
            slots=self.slots.ctypes.data,
            places=self.places.ctypes.data,
            factors=self.factors.data_ptr(),
        )


@dataclass(frozen=True, slots=True, eq=False)
class CompiledRows:
    """The rows of a step that the kernel computes, in one call for each layer.

    Mutates: `work` is of the layer that is computed.
    """

    kernel: RowKernel
    keys: tuple[RowKeys, ...]
    rows: "ctypes.Array[RowWork]" = field(init=False)
    work: LayerWork = field(init=False)

    def __post_init__(self) -> None:
        rows = (RowWork * len(self.keys))(*(keys.work() for keys in self.keys))
        object.__setattr__(self, "rows", rows)
        work = LayerWork(rows=ctypes.addressof(rows), count=len(rows))
        object.__setattr__(self, "work", work)

    @classmethod
    def of(
        cls, rows: Sequence[BatchRow], kernel: RowKernel, rotation: PairRotation
    ) -> "CompiledRows":
        """Return what the kernel needs to know of these rows."""
        return cls(kernel, tuple(RowKeys.of(row, rotation) for row in rows))

    def before(self, tokens: int) -> "CompiledRows":
        """Return those rows whose queries are among the step's first tokens."""
        return CompiledRows(self.kernel, tuple(row for row in self.keys if row.first < tokens))

    def attend(
        self, store: PageStore, layer: int, query: Tensor, scaling: float, out: Tensor
    ) -> None:
        """Write what these rows' queries get.

        Shapes: query [heads, t, head_dim]; out [t, heads, head_dim], contiguous.
        """
        own = query if query.stride(2) == 1 else query.contiguous()
        point_to_layer(self.work, store, layer, own, scaling, out)
        self.kernel.run(self.work, torch.get_num_threads())

    def give_rows(self, work: LayerWork) -> None:
        """Have these rows computed by work on a layer. Mutates: work."""
        work.rows, work.count = self.work.rows, self.work.count


def point_to_layer(
    work: LayerWork, store: PageStore, layer: int, query: Tensor, scaling: float, out: Tensor
) -> None:
    """Say where the queries, keys and values of a layer are, and where its results go.

    Shapes: query [heads, t, head_dim], whose last numbers lie side by side; out
    [t, heads, head_dim], contiguous.
    Mutates: work, but for its rows.
    """
    keys, values = store.keys[layer], store.values[layer]
    work.query, work.query_head, work.query_row = query.data_ptr(), query.stride(0), query.stride(1)
    work.keys, work.values, work.pool_head = keys.data_ptr(), values.data_ptr(), keys.stride(0)
    work.heads, work.kv_heads, work.head_dim = len(query), len(keys), query.shape[2]
    work.scaling, work.out = scaling, out.data_ptr()
