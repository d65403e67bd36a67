"""The servers that are attacked, as their operator would start them."""

from dataclasses import dataclass, field
from typing import Final

from heddle.workflow.presets import PRESETS

NEED_NO_MODEL: Final = frozenset({"quote"})


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to start `heddle serve`.

    Attributes:
        name: its name in results.
        options: options of `heddle serve`, besides those for the other fields.
        has_model: whether a model writes answers; without one only `quote` works.
        takes_changes: whether clients may put and delete documents.
        needs_key: whether clients must have a key.
        index_kind: kind of the index that it searches.
        has_replicas: whether another process goes on where one is lost.
    """

    name: str
    options: tuple[str, ...] = field(default=())
    has_model: bool = True
    takes_changes: bool = True
    needs_key: bool = False
    index_kind: str = "auto"
    has_replicas: bool = False

    @property
    def workflows(self) -> tuple[str, ...]:
        """The ready-made workflows that it can run."""
        return tuple(name for name in PRESETS if self.has_model or name in NEED_NO_MODEL)


DEFAULT: Final = Configuration("default", has_model=False, takes_changes=False)
CHANGES: Final = Configuration("allow-changes")
PREFILL_DECODE: Final = Configuration("prefill-decode", ("--llm-lanes", "prefill,decode"))
GRAPH: Final = Configuration("graph", ("--search-pool", "adaptive"), index_kind="graph")
SHARDS: Final = Configuration("shards", ("--shards", "2", "--lost-shard", "degrade"))
REPLICAS: Final = Configuration("replicas", ("--replicas", "llm=2,retrieval=2"), has_replicas=True)
KEYS: Final = Configuration("keys", needs_key=True)
# Caches that fill early in a run: what grows after that is no cache.
KV_REUSE: Final = Configuration(
    "kv-reuse",
    ("--kv-reuse", "fusionrag", "--kv-reuse-memory-bytes", "16M", "--kv-cache-bytes", "32M"),
)
