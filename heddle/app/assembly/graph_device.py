"""Where an index that is a graph is searched: by the host's cores, or on a GPU."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from heddle.app.assembly.device_memory import DeviceMemory
from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError
from heddle.core.printing.sizes import mib
from heddle.engines.vector.graph.build import HOST
from heddle.hosts.machine import MachineFacts

GPU: Final = "cuda:0"
SHARE_MAX: Final = 0.25  # of a GPU's free memory: what the graph takes there, LLMs lack


@dataclass(frozen=True, slots=True)
class GraphDevice:
    """Where a graph is searched.

    Args:
        device: as torch names it; `HOST` = by the host's cores.
        bytes_there: what one copy of it takes on a GPU.
        why: where and why, in words; empty = the index is no graph.
    """

    device: str = HOST
    bytes_there: int = 0
    why: str = ""

    @property
    def is_gpu(self) -> bool:
        """Whether that is a GPU."""
        return self.device != HOST


NO_GRAPH: Final = GraphDevice()


def choose_graph_device(
    config: ServerConfig, machine: MachineFacts, graph_bytes: int, memory: DeviceMemory | None
) -> GraphDevice:
    """Return where a server searches its graph.

    Args:
        config: the server's.
        machine: what this process may use.
        graph_bytes: what the graph takes; 0 = the index is none.
        memory: the GPU's; None = its size isn't known.

    Raises:
        ConfigError: the user wants a GPU, and none can do it.
    """
    if not graph_bytes:
        return NO_GRAPH
    problem = _problem(machine)
    if config.graph_device == "cuda" and problem:
        raise ConfigError(f"graph_device is cuda, and {problem}: use cpu or auto")
    if config.graph_device == "auto" and not problem:
        problem = _auto_problem(config, graph_bytes, memory)
    if config.graph_device == HOST:
        return GraphDevice(why="by the host's cores (graph_device is cpu)")
    if problem:
        return GraphDevice(why=f"by the host's cores: {problem}")
    return GraphDevice(GPU, graph_bytes, f"on {GPU}, {mib(graph_bytes)}")


def _problem(machine: MachineFacts) -> str:
    """Return why no GPU can search a graph here; empty = one can."""
    if not machine.gpus:
        return "this machine shows no NVIDIA GPU"
    return "" if find_spec("triton") else "triton is not installed (pip install 'heddle[gpu]')"


def _auto_problem(config: ServerConfig, graph_bytes: int, memory: DeviceMemory | None) -> str:
    """Return why the GPU that is there isn't taken unless the user says so; empty = it is."""
    if config.device == HOST:
        return "device is cpu"
    if memory is None:
        return "the GPU's memory isn't known (graph_device cuda takes it anyway)"
    if graph_bytes > SHARE_MAX * memory.free_bytes:
        free = mib(memory.free_bytes)
        return f"it takes {mib(graph_bytes)} of the {free} that the GPU has free"
    return ""
