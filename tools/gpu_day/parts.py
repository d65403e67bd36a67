"""The parts of the day, in order of worth."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

LIMIT_S: Final = 480.0
ALWAYS: Final = ("torch", "triton", "transformers", "safetensors", "greenlet", "rich")


@dataclass(frozen=True, slots=True)
class Part:
    """A measurement that runs in a process of its own.

    Args:
        name: of the part and of its result's file.
        function: where it is, as `module:name`; see `benchmarks.gpu`.
        shows: its subject, in a few words.
        usual_s: estimated time on a GPU [s]; with less time left it isn't begun.
        needs: packages beyond those that every part needs.
        limit_s: time after which it is ended by force [s].
    """

    name: str
    function: str
    shows: str
    usual_s: float
    needs: tuple[str, ...] = ()
    limit_s: float = LIMIT_S

    @property
    def missing(self) -> tuple[str, ...]:
        """The packages that it needs and that aren't installed."""
        return tuple(name for name in (*ALWAYS, *self.needs) if find_spec(name) is None)


_SEARCHES: Final = ("faiss", "numba")

PARTS: Final = (
    Part(
        "ceilings",
        "benchmarks.gpu.ceilings:measure",
        "bandwidth, products and transfers at best",
        10,
    ),
    Part(
        "kernels",
        "benchmarks.gpu.kernels:check",
        "each Triton kernel beside the oracle",
        100,
        ("faiss",),
    ),
    Part("exactness", "benchmarks.gpu.exactness:check", "eight families beside transformers", 30),
    Part(
        "unit-tests",
        "benchmarks.gpu.unit_tests:run",
        "the kernels' own tests",
        60,
        ("pytest", "hypothesis", "faiss", "numba", "psutil"),
    ),
    Part(
        "shared-chunks",
        "benchmarks.gpu.shared_chunks:measure",
        "chunks in shared pages beside copies",
        40,
    ),
    Part(
        "kv-transfers",
        "benchmarks.gpu.transfers:measure",
        "KV of chunks to the GPU and back",
        10,
    ),
    Part("device-memory", "benchmarks.gpu.memory:check", "memory as planned and as taken", 40),
    Part(
        "sparse-attention", "benchmarks.gpu.attention:sparse", "attention of scattered queries", 120
    ),
    Part(
        "fusion-ttft-8k",
        "benchmarks.gpu.attention:ttft_short",
        "first tokens, 8k, a 7B's shape",
        60,
    ),
    Part(
        "llm-steps", "benchmarks.gpu.step_curves:measure_llm", "an LLM's steps by their tokens", 45
    ),
    Part(
        "fusion-ttft", "benchmarks.gpu.attention:ttft_long", "first tokens, 27k, a 7B's shape", 90
    ),
    Part(
        "workflows-light",
        "benchmarks.gpu.workflow_load:light",
        "workflows, light searches",
        180,
        _SEARCHES,
    ),
    Part(
        "hot-clusters", "benchmarks.gpu.searches:hot_clusters", "scans of hot blocks", 60, _SEARCHES
    ),
    Part(
        "graph-search", "benchmarks.gpu.searches:graph_small", "a graph of 200,000", 60, _SEARCHES
    ),
    Part("encoder-steps", "benchmarks.gpu.step_curves:measure_encoder", "an encoder's batches", 40),
    Part("embedding", "benchmarks.gpu.embedding:together", "embedding on a GPU and a CPU", 60),
    Part(
        "workflows-heavy",
        "benchmarks.gpu.workflow_load:heavy",
        "workflows, heavy searches",
        150,
        _SEARCHES,
    ),
    Part(
        "embedding-beside-decoding",
        "benchmarks.gpu.embedding:beside_decoding",
        "embedding on a GPU that decodes",
        110,
    ),
    Part(
        "workflows-pairs",
        "benchmarks.gpu.workflow_load:pairs",
        "two workflows at a time",
        300,
        _SEARCHES,
    ),
    Part(
        "graph-search-1m",
        "benchmarks.gpu.searches:graph_large",
        "a graph of a million",
        240,
        _SEARCHES,
    ),
)
