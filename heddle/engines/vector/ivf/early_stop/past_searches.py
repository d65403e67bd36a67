"""What the searches of each request have found so far. Pure."""

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

REQUESTS_KEPT: Final = 1024
SEARCHES_KEPT: Final = 4  # of each request


@dataclass(frozen=True, slots=True, eq=False)
class PastSearch:
    """A query [d] and the labels of its nearest hits, [h]."""

    query: NDArray[np.float32]
    hits: NDArray[np.int64]


class PastSearches:
    """The last searches of the requests that searched last."""

    def __init__(self) -> None:
        self._by_request: OrderedDict[int, deque[PastSearch]] = OrderedDict()

    def add(self, request_id: int, search: PastSearch) -> None:
        """Remember a search; the oldest of its request, or of all requests, may be forgotten."""
        searches = self._by_request.setdefault(request_id, deque(maxlen=SEARCHES_KEPT))
        searches.append(search)
        self._by_request.move_to_end(request_id)
        if len(self._by_request) > REQUESTS_KEPT:
            self._by_request.popitem(last=False)

    def nearest(self, request_id: int, query: NDArray[np.float32]) -> PastSearch | None:
        """Return the search of a request that asked for what is nearest to this query, if any."""
        searches = self._by_request.get(request_id, ())
        distances = [float(np.linalg.norm(query - search.query)) for search in searches]
        return searches[int(np.argmin(distances))] if distances else None
