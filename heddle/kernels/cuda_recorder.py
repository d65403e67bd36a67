"""Work of a GPU that is recorded once (a CUDA graph) and launched at once from then on."""

from collections.abc import Callable
from typing import Protocol, TypeVar

import torch

Outputs = TypeVar("Outputs")


class Recorder(Protocol):
    """Records what a device does."""

    def record(self, run: Callable[[], Outputs]) -> tuple[Outputs, Callable[[], None]]:
        """Run it once; return its outputs, and what computes them anew where they lie.

        Raises:
            RuntimeError: it waits for the device meanwhile, or there is too little memory.
        """
        ...


class CudaRecorder:
    """Records into CUDA graphs, which share the memory of what lies between their kernels.

    Args:
        device: a GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        # One for all recordings: memory is shared only by those of one stream.
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()

    def record(self, run: Callable[[], Outputs]) -> tuple[Outputs, Callable[[], None]]:
        """Run it once, then once more into a graph, and replay that."""
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            run()  # libraries make their workspaces, Triton compiles
        current.wait_stream(self._stream)
        graph = torch.cuda.CUDAGraph()
        # Other threads may pin memory meanwhile. torch stays on the graph's stream after a failure,
        # so the outer block goes back.
        with (
            torch.cuda.stream(current),
            torch.cuda.graph(
                graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
            ),
        ):
            outputs = run()
        graph.replay()
        return outputs, graph.replay
