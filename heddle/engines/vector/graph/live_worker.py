"""A worker over a graph that changes: what brings a corpus's changes to it hands it other ones."""

from typing import Protocol

from heddle.engines.vector.graph.live_graph import LiveGraph
from heddle.engines.vector.graph.worker_port import GraphWorker


class LiveWorker(GraphWorker, Protocol):
    """What touches the graph, on the host or on a device."""

    def serve(self, live: LiveGraph) -> None:
        """Search this from now on; where that fails, what was searched before.

        No search may be in flight.
        """
        ...
