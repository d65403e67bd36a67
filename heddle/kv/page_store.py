"""The tensors behind the pages: keys (after RoPE) and values of every slot and layer."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from heddle.kv.rows import SlotRun


@dataclass(frozen=True, slots=True)
class KvShape:
    """What one token's KV looks like, and so what a page costs."""

    layers: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype

    @property
    def token_bytes(self) -> int:
        """Bytes of one token's keys and values over all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.dtype.itemsize


@dataclass(frozen=True, slots=True, eq=False)
class KvBlock:
    """The KV of consecutive positions, outside any pool.

    Shapes: keys and values [layers, kv_heads, tokens, head_dim].
    """

    keys: torch.Tensor
    values: torch.Tensor

    @property
    def tokens(self) -> int:
        """Positions in the block."""
        return int(self.keys.shape[2])


class PageStore:
    """A pool of slots, one tensor for keys and one for values in each layer.

    Shapes: keys[l] and values[l] [kv_heads, slots, head_dim]. Heads come first: a run of slots
    is then a plain strided view for every head, which measured 1.4 ms a layer for 16 sequences
    of 500 tokens on two cores, against 1.9 ms with slots first.
    """

    def __init__(self, shape: KvShape, slots: int, device: torch.device) -> None:
        size = (shape.kv_heads, slots, shape.head_dim)
        self.shape = shape
        self.slots = slots
        self.device = device
        self.keys = [
            torch.empty(size, dtype=shape.dtype, device=device) for _ in range(shape.layers)
        ]
        self.values = [
            torch.empty(size, dtype=shape.dtype, device=device) for _ in range(shape.layers)
        ]

    def write(
        self, layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> None:
        """Store new keys and values. Shapes: slots [t]; keys, values [kv_heads, t, head_dim]."""
        self.keys[layer].index_copy_(1, slots, keys)
        self.values[layer].index_copy_(1, slots, values)

    def read(self, layer: int, runs: tuple[SlotRun, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the keys and values of a row; a view where one run holds it all.

        Shapes: keys and values [kv_heads, tokens, head_dim].
        """
        return _join(self.keys[layer], runs), _join(self.values[layer], runs)

    def export(self, slots: NDArray[np.int64]) -> KvBlock:
        """Copy the KV of these slots out, to the host."""
        index = torch.from_numpy(slots).to(self.device)
        return KvBlock(
            torch.stack([layer.index_select(1, index) for layer in self.keys]).cpu(),
            torch.stack([layer.index_select(1, index) for layer in self.values]).cpu(),
        )

    def load(self, slots: NDArray[np.int64], block: KvBlock) -> None:
        """Copy a block's KV into these slots."""
        index = torch.from_numpy(slots).to(self.device)
        for layer in range(self.shape.layers):
            self.write(
                layer, index, block.keys[layer].to(self.device), block.values[layer].to(self.device)
            )


def _join(pool: torch.Tensor, runs: tuple[SlotRun, ...]) -> torch.Tensor:
    views = [pool.narrow(1, run.start, run.length) for run in runs]
    return views[0] if len(views) == 1 else torch.cat(views, dim=1)
