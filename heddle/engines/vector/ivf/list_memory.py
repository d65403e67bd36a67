"""Where FAISS keeps the vectors of an index."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.kernels.shared_scan import TOGETHER


class ListMemory:
    """Addresses of inverted lists, looked up when they are first needed.

    They are good until the index changes: `forget` them then.

    Args:
        ivf: a faiss.IndexIVF.
    Shapes: all [nlist] int64; an entry counts from its `locate` on.
    """

    def __init__(self, ivf: Any) -> None:  # noqa: ANN401 - FAISS's own
        self.codes = np.zeros(ivf.nlist, np.int64)
        self.ids = np.zeros(ivf.nlist, np.int64)
        self.sizes = np.zeros(ivf.nlist, np.int64)
        self._inverted, self._code_bytes = ivf.invlists, int(ivf.code_size)
        self._is_known = np.zeros(ivf.nlist, bool)

    def locate(self, lists: NDArray[np.int64]) -> None:
        """Know where these lists are; any shape, -1 = none."""
        asked = lists[lists >= 0]
        unknown = asked[~self._is_known[asked]]
        for number in set(unknown.tolist()):
            size = self.sizes[number] = self._inverted.list_size(number)
            if size:  # an empty list may have no address
                self.codes[number] = int(self._inverted.get_codes(number))
                self.ids[number] = int(self._inverted.get_ids(number))
            self._is_known[number] = True

    def bytes_of(self, lists: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return about how many bytes each column of lists [n, w] takes as long as, [w].

        Comparing a vector with `TOGETHER` queries takes as long as reading it. A column is taken
        for one list; where its rows scan several, it takes longer than this.
        """
        sizes = np.where(lists >= 0, self.sizes[lists], 0)
        vectors: NDArray[np.int64] = np.maximum(
            sizes.max(axis=0, initial=0), sizes.sum(axis=0) // TOGETHER
        )
        return vectors * self._code_bytes

    def forget(self) -> None:
        """Know nothing: vectors have come or gone, and FAISS may have moved the others."""
        self._is_known[:] = False
