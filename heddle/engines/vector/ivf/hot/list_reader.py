"""What the lists of a FAISS index hold, as vectors, also where they are stored as codes."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import faiss
import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import ConfigError
from heddle.engines.vector.ivf.live_index import IvfIndex

FAISS_BLOCK_ROWS = 32  # vectors whose 4-bit codes FastScan interleaves
POSITION_BITS = 12  # enough to number the half-bytes of such a block

Read = Callable[[int, int, int], NDArray[np.float32]]
"""A list, its first row and the one to stop before -> their vectors, [m, d]."""


class ListReader:
    """Reads lists. Codes are decoded: distances to that are what a scan of the codes estimates.

    Args:
        ivf: an index of whole vectors, of product codes without residuals, or of Panorama's.

    Raises:
        ConfigError: FAISS lays its lists out differently here.
    """

    def __init__(self, ivf: IvfIndex) -> None:
        self._ivf = ivf
        self._lists: Any = ivf.invlists
        # No method of this object: a cycle would keep the index when another has taken its place.
        self._read = _READERS[type(ivf).__name__](ivf)
        self._check()

    @property
    def dims(self) -> int:
        """Length of a vector."""
        return int(self._ivf.d)

    @property
    def is_coded(self) -> bool:
        """Whether the lists hold codes, which half precision describes well enough."""
        return type(self._ivf).__name__ == "IndexIVFPQFastScan"

    def sizes(self) -> NDArray[np.int64]:
        """Return how many vectors each list holds, [nlist]."""
        size_of = self._lists.list_size
        return np.array([size_of(number) for number in range(self._ivf.nlist)], np.int64)

    def read(self, number: int, first: int, stop: int) -> NDArray[np.float32]:
        """Return the vectors of rows [first, stop) of a list, [m, d]; `first` is a multiple of 32.

        Not safe beside a change of the index.
        """
        return self._read(number, first, stop)

    def labels(self, number: int, first: int, stop: int) -> NDArray[np.int64]:
        """Return the labels of these rows, [m]."""
        count = int(self._lists.list_size(number))
        ids: NDArray[np.int64] = faiss.rev_swig_ptr(self._lists.get_ids(number), count)
        return ids[first:stop].copy()

    def _check(self) -> None:
        """Compare rows of the longest list with what FAISS itself says that they are."""
        sizes = self.sizes()
        if not sizes.any():
            return
        number = int(sizes.argmax())
        mine = self.read(number, 0, int(sizes[number]))
        theirs = np.empty(self.dims, np.float32)
        for row in {0, int(sizes[number]) // 2, int(sizes[number]) - 1}:
            self._ivf.reconstruct_from_offset(number, row, faiss.swig_ptr(theirs))
            if not np.array_equal(mine[row], theirs):
                raise ConfigError(
                    f"hot_clusters: FAISS {faiss.__version__} stores lists in a way that isn't "
                    "known here; use hot_clusters off, or the faiss-cpu release that Heddle was "
                    "tested with (1.15)"
                )


def _codes(lists: Any, number: int, count: int) -> NDArray[np.uint8]:  # noqa: ANN401 - FAISS's own
    codes: NDArray[np.uint8] = faiss.rev_swig_ptr(lists.get_codes(number), count)
    return codes


def _flat(ivf: IvfIndex) -> Read:
    lists, dims = ivf.invlists, int(ivf.d)

    def read(number: int, first: int, stop: int) -> NDArray[np.float32]:
        codes = _codes(lists, number, stop * lists.code_size)
        return codes.view(np.float32).reshape(stop, dims)[first:].copy()

    return read


def _panorama(ivf: IvfIndex) -> Read:
    lists, dims = ivf.invlists, int(ivf.d)
    levels, batch = int(ivf.n_levels), int(ivf.batch_size)
    width = dims // levels
    if width * levels != dims:
        raise ConfigError(
            f"hot_clusters: vectors of {dims} dimensions don't fall into {levels} equal "
            "pieces; use hot_clusters off"
        )

    def read(number: int, first: int, stop: int) -> NDArray[np.float32]:
        batches = -(-stop // batch)
        codes = _codes(lists, number, batches * batch * lists.code_size)
        pieces = codes.view(np.float32).reshape(batches, levels, batch, width)
        from_batch = first // batch
        vectors = pieces[from_batch:].transpose(0, 2, 1, 3).reshape(-1, dims)
        return vectors[first - from_batch * batch : stop - from_batch * batch]

    return read


def _fast_scan(ivf: IvfIndex) -> Read:
    lists, pq = ivf.invlists, ivf.pq
    packer = ivf.get_CodePacker()
    order = _half_byte_order(packer)

    def read(number: int, first: int, stop: int) -> NDArray[np.float32]:
        blocks = -(-stop // FAISS_BLOCK_ROWS)
        packed = _codes(lists, number, blocks * packer.block_size)
        packed = packed[first // FAISS_BLOCK_ROWS * packer.block_size :]
        halves = _half_bytes(packed).reshape(-1, 2 * packer.block_size)[:, order]
        halves = halves.reshape(-1, packer.code_size, 2)[: stop - first]
        codes = halves[:, :, 0] | halves[:, :, 1] << 4
        vectors: NDArray[np.float32] = pq.decode(np.ascontiguousarray(codes))
        return vectors

    return read


_READERS: Final[Mapping[str, Callable[[IvfIndex], Read]]] = MappingProxyType(
    {
        "IndexIVFFlat": _flat,
        "IndexIVFFlatPanorama": _panorama,
        "IndexIVFPQFastScan": _fast_scan,
    }
)


def _half_bytes(values: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the lower and the upper half of each byte, [2 n]."""
    return np.stack([values & 15, values >> 4], axis=-1).ravel()


def _half_byte_order(packer: Any) -> NDArray[np.int64]:  # noqa: ANN401 - faiss.CodePacker
    """Return, for each half-byte of a block's codes in order, where it lies in the packed block.

    Packed blocks that number their half-bytes, four bits at a time, are unpacked by FAISS, which
    is too slow to do so for every list.
    """
    assert packer.nvec == FAISS_BLOCK_ROWS, f"blocks of {packer.nvec} rows"
    positions = np.arange(2 * packer.block_size)
    assert len(positions) <= 1 << POSITION_BITS, "a block with more half-bytes than can be numbered"
    order = np.zeros(2 * packer.nvec * packer.code_size, np.int64)
    for shift in range(0, POSITION_BITS, 4):
        digits = (positions >> shift & 15).astype(np.uint8)
        packed = np.ascontiguousarray(digits[0::2] | digits[1::2] << 4)
        codes = np.zeros((packer.nvec, packer.code_size), np.uint8)
        packer.unpack_all(faiss.swig_ptr(packed), faiss.swig_ptr(codes))
        order |= _half_bytes(codes.ravel()).astype(np.int64) << shift
    return order
