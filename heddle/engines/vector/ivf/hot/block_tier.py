"""Vectors in blocks on a device, scanned for many queries at once."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heddle.engines.vector.ivf.hot.residency import BLOCK_ROWS, EMPTY
from heddle.engines.vector.search import SortedHits

STAGED_BLOCKS: Final = 8  # what one copy takes along: half a thousand vectors
STAGES: Final = 2  # one is filled while the other is being copied
SHARED_FROM: Final = 4  # queries of a block, on average, from which one product for all pays
GATHERED_BYTES_MAX: Final = 64 << 20  # copies of vectors that a step without kernels holds
KERNEL_DIMS: Final = 64  # coordinates that the kernel reads at once


@dataclass(slots=True, eq=False)
class Stage:
    """Memory that a copy starts from; `copied` is set while a device may still read it."""

    vectors: Tensor
    labels: Tensor
    copied: torch.cuda.Event | None = None

    @property
    def is_free(self) -> bool:
        """Whether nothing reads it any more."""
        return self.copied is None or bool(self.copied.query())  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What a scan finds, on its way back; entries without a vector are (inf, -1)."""

    distances: Tensor
    labels: Tensor
    arrived: torch.cuda.Event | None = None

    def wait(self) -> SortedHits:
        """Return distances and labels, [n, k] each, in no order, once they are here."""
        if self.arrived is not None:
            self.arrived.synchronize()
        return self.distances.numpy(), self.labels.numpy()


class BlockTier:
    """Blocks of BLOCK_ROWS vectors; a query names the blocks it wants scanned.

    Without a GPU the host's memory plays the device: the same code, copies that are over at once.

    Args:
        blocks: how many, besides the empty one.
        dims: length of a vector.
        dtype: of the stored vectors.
        device: where they lie.
    """

    def __init__(self, blocks: int, dims: int, dtype: torch.dtype, device: torch.device) -> None:
        self.dims, self.device = dims, device
        self._vectors = torch.zeros((blocks + 1, BLOCK_ROWS, dims), dtype=dtype, device=device)
        self._norms = torch.full((blocks + 1, BLOCK_ROWS), torch.inf, device=device)
        self._labels = torch.full((blocks + 1, BLOCK_ROWS), -1, device=device)
        self._on_gpu = device.type == "cuda"
        self._has_kernels = self._on_gpu and find_spec("triton") is not None
        self._side = torch.cuda.Stream(device) if self._on_gpu else None  # type: ignore[no-untyped-call]
        if self._side is not None:  # the first copy must not be overtaken by the filling above
            self._side.wait_stream(torch.cuda.current_stream(device))
        self._stages = [self._stage() for _ in range(STAGES)]

    @property
    def nbytes(self) -> int:
        """What the blocks take on the device."""
        return sum(pool.nbytes for pool in (self._vectors, self._norms, self._labels))

    def free_stage(self) -> Stage | None:
        """Return memory to copy from, with labels of -1, or None: both are being copied."""
        for stage in self._stages:
            if stage.is_free:
                stage.labels.fill_(-1)
                return stage
        return None

    def copy_in(self, stage: Stage, blocks: NDArray[np.int64]) -> None:
        """Start to copy the first blocks of a stage to these of the device, [m].

        Runs beside scans of other blocks; over once the stage is free. Rows whose label is -1
        hold nothing.
        """
        with torch.cuda.stream(self._side):  # None, without a GPU, changes nothing
            count = len(blocks)
            at = torch.from_numpy(blocks).to(self.device)
            vectors = stage.vectors[:count].to(self.device, non_blocking=True)
            labels = stage.labels[:count].to(self.device, non_blocking=True)
            norms = vectors.float().square().sum(dim=2)
            self._vectors[at] = vectors
            self._labels[at] = labels
            self._norms[at] = norms.masked_fill_(labels < 0, torch.inf)
            if self._on_gpu:
                stage.copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
                stage.copied.record(self._side)

    def scan(self, queries: NDArray[np.float32], blocks: NDArray[np.int64], k: int) -> Found:
        """Start to find each query's k nearest vectors, fewer where its blocks hold fewer.

        Shapes: queries [n, d]; blocks [n, b], EMPTY = none.
        """
        names, columns = np.unique(blocks, return_inverse=True)
        wanted = int(np.count_nonzero(blocks != EMPTY))
        on_device = torch.from_numpy(queries).to(self.device, non_blocking=True)
        if wanted >= SHARED_FROM * len(names):
            found = self._scan_shared(on_device, names, columns.reshape(blocks.shape), k)
        else:
            found = self._scan_own(on_device, torch.from_numpy(blocks).to(self.device), k)
        if not self._on_gpu:
            return Found(*found)
        back = [torch.empty(part.shape, dtype=part.dtype, pin_memory=True) for part in found]
        for target, part in zip(back, found, strict=True):
            target.copy_(part, non_blocking=True)
        arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        arrived.record()
        return Found(back[0], back[1], arrived)

    def _scan_shared(
        self, queries: Tensor, names: NDArray[np.int64], columns: NDArray[np.int64], k: int
    ) -> tuple[Tensor, Tensor]:
        """Compare every query with every block that one of them wants, in one product."""
        is_wanted = np.zeros((len(columns), len(names)), bool)
        is_wanted[np.arange(len(columns))[:, None], columns] = True
        at = torch.from_numpy(names).to(self.device)
        vectors = self._vectors[at].view(-1, self.dims).float()
        distances = _from_products(queries, self._norms[at].view(-1), queries @ vectors.T)
        unwanted = torch.from_numpy(~is_wanted).to(self.device).repeat_interleave(BLOCK_ROWS, dim=1)
        distances.masked_fill_(unwanted, torch.inf)
        labels = self._labels[at].view(1, -1).expand(len(queries), -1)
        return _nearest(distances, labels, k)

    def _scan_own(self, queries: Tensor, blocks: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Compare each query with its own blocks."""
        if self._has_kernels:
            return _nearest(self.kernel_distances(queries, blocks), self._labels_of(blocks), k)
        row_bytes = blocks.shape[1] * BLOCK_ROWS * self.dims * queries.element_size()
        rows = max(1, GATHERED_BYTES_MAX // row_bytes)
        parts = []
        for first in range(0, len(queries), rows):
            of = blocks[first : first + rows]
            distances = self.gathered_distances(queries[first : first + rows], of)
            parts.append(_nearest(distances, self._labels_of(of), k))
        return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])

    def gathered_distances(self, queries: Tensor, blocks: Tensor) -> Tensor:
        """Return squared L2 by torch's own operations: [n, d], [n, b] -> [n, b * BLOCK_ROWS]."""
        vectors = self._vectors[blocks].view(len(queries), -1, self.dims).float()
        products = torch.bmm(vectors, queries[:, :, None])[:, :, 0]
        return _from_products(queries, self._norms[blocks].view(len(queries), -1), products)

    def kernel_distances(self, queries: Tensor, blocks: Tensor) -> Tensor:
        """Return the same by a kernel that copies no vectors."""
        # Late: triton is an extra, and only a GPU needs it.
        from heddle.engines.vector.ivf.hot.block_kernel import block_distances

        out = torch.empty((*blocks.shape, BLOCK_ROWS), device=self.device)
        with torch.cuda.device_of(queries):  # type: ignore[no-untyped-call]
            block_distances[blocks.shape[::-1]](
                out,
                queries,
                blocks,
                self._vectors,
                self._norms,
                DIMS=self.dims,
                BLOCK_D=KERNEL_DIMS,
            )
        return out.view(len(blocks), -1)

    def _labels_of(self, blocks: Tensor) -> Tensor:
        return self._labels[blocks].view(len(blocks), -1)

    def _stage(self) -> Stage:
        shape = (STAGED_BLOCKS, BLOCK_ROWS, self.dims)
        vectors = torch.zeros(shape, dtype=self._vectors.dtype, pin_memory=self._on_gpu)
        labels = torch.full(shape[:2], -1, pin_memory=self._on_gpu)
        return Stage(vectors, labels)


def _from_products(queries: Tensor, norms: Tensor, products: Tensor) -> Tensor:
    """Return |q|² + |x|² - 2 qx, at least 0: queries [n, d], products [n, m], norms to match."""
    distances = products.mul_(-2).add_(norms)
    return distances.add_(queries.square().sum(dim=1, keepdim=True)).clamp_(min=0)


def _nearest(distances: Tensor, labels: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k smallest distances of each row and their labels, in no order."""
    found, at = distances.topk(min(k, distances.shape[1]), largest=False, sorted=False)
    return found, labels.gather(1, at).masked_fill_(found == torch.inf, -1)
