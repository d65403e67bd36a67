"""A device for the hot lists of an index, sized and filled by its share of the vectors."""

from typing import Final

import torch

from heddle.core.ports import Clock
from heddle.engines.vector.ivf.hot.block_tier import BlockTier
from heddle.engines.vector.ivf.hot.hot_clusters import SWAP_EVERY, HotClusters
from heddle.engines.vector.ivf.hot.list_reader import ListReader
from heddle.engines.vector.ivf.hot.residency import BLOCK_ROWS
from heddle.engines.vector.ivf.hot.worth import Worth
from heddle.engines.vector.ivf.live_index import IvfIndex

CPU: Final = torch.device("cpu")


def build_hot_clusters(
    ivf: IvfIndex,
    share: float,
    device: torch.device,
    clock: Clock,
    *,
    swap_every: int = SWAP_EVERY,
    is_always_used: bool = False,
) -> HotClusters:
    """Return hot clusters over an index, none of them on the device yet.

    Args:
        ivf: the index, which may change later; see `HotClusters.index_changed`.
        share: of the vectors that the device holds, in (0, 1].
        device: a GPU, or the host's memory in its place.
        clock: measures what host and device cost.
        swap_every: sub-stages between two swaps.
        is_always_used: use the device where it has a list, even if the host is faster.

    Raises:
        ConfigError: FAISS lays the index out in an unknown way.
    """
    reader = ListReader(ivf)
    blocks = max(1, round(share * int((-(-reader.sizes() // BLOCK_ROWS)).sum())))
    # Codes in half precision are as exact as FAISS's own tables, which have 8 bits.
    is_half = reader.is_coded and device.type == "cuda"  # most CPUs don't compute with it
    dtype = torch.float16 if is_half else torch.float32
    tier = BlockTier(blocks, reader.dims, dtype, device)
    worth = None if is_always_used else Worth()
    return HotClusters(reader, tier, blocks, clock, swap_every=swap_every, worth=worth)
