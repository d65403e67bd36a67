"""Copies of KV between the host and its device, from and to page-locked memory where it is another.

A GPU reads page-locked memory by itself, at the speed of the bus and beside its kernels. Other
memory it gets through a buffer of the driver's, while the host waits. What a chunk KV store keeps
beside a GPU is page-locked (`ChunkStoreSettings.pins_host_memory`), and what is copied out goes
there at once.
"""

from typing import Protocol

import torch
from torch import Tensor

from heddle.kv.page_store import KvBlock


class PinnedMemory(Protocol):
    """Page-locked memory of the host."""

    def like(self, tensor: Tensor) -> Tensor:
        """Return room for a tensor, in memory that the device writes by itself."""
        ...

    def wait(self) -> None:
        """Wait until all copies that were begun are over."""
        ...


class CudaPinned:
    """Page-locked memory beside a GPU; torch keeps what is freed, so that it is locked once.

    Args:
        device: the GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def like(self, tensor: Tensor) -> Tensor:
        """Return room for a tensor."""
        return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)

    def wait(self) -> None:
        """Wait until all copies that were begun are over."""
        torch.cuda.current_stream(self._device).synchronize()


class Transfers:
    """Moves blocks of KV; on a CPU they stay where they are.

    Args:
        device: where the KV pool is.
        memory: the host's page-locked memory; None = that beside a GPU, and none on a CPU.
    """

    def __init__(self, device: torch.device, memory: PinnedMemory | None = None) -> None:
        self._device = device
        is_gpu = device.type == "cuda"
        self._memory = CudaPinned(device) if memory is None and is_gpu else memory

    def to_device(self, block: KvBlock, first: int = 0, stop: int | None = None) -> KvBlock:
        """Return tokens [first, stop) of a block on the device; None = to its end.

        A whole block travels in one copy a tensor, however many runs of slots it falls into there,
        and what follows on the device waits for it, not the host.
        """
        stop = block.tokens if stop is None else stop
        parts = [block.keys, block.values]
        if stop - first < block.tokens:
            parts = [part[:, :, first:stop] for part in parts]
        keys, values = (part.to(self._device, non_blocking=True) for part in parts)
        return KvBlock(keys, values)

    def to_host(self, block: KvBlock) -> KvBlock:
        """Return a block in the host's memory."""
        if self._memory is None:
            return KvBlock(block.keys.cpu(), block.values.cpu())
        keys, values = self._memory.like(block.keys), self._memory.like(block.values)
        keys.copy_(block.keys, non_blocking=True)
        values.copy_(block.values, non_blocking=True)
        self._memory.wait()
        return KvBlock(keys, values)
