"""What a scan of lists can be given to, beside the host that scans the rest."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

ScanLists = Callable[
    [NDArray[np.float32], NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]], None
]
"""Scans lists for queries, updating heaps in place: what the host does without a device."""


class ListDevice(Protocol):
    """Answers for some of a sub-stage's lists."""

    def index_changed(self) -> None:
        """Note that vectors were added to lists or taken from them."""
        ...

    def scan(
        self,
        queries: NDArray[np.float32],
        lists: NDArray[np.int64],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        scan_on_host: ScanLists,
    ) -> NDArray[np.int64]:
        """Scan lists for queries; updates the heaps in place, whose largest entry comes first.

        Returns how many of each query's lists the device has scanned, [n].

        Shapes: queries [n, d]; lists [n, w], NO_LIST = none; distances and labels [n, k].
        """
        ...
