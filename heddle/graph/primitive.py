"""A primitive and what it is configured to do. (Teola §4.1)"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from heddle.core.payloads import Sampling
from heddle.core.primitives import PrimitiveKind


@dataclass(frozen=True, slots=True)
class Read:
    """Read a value of the object store by key.

    `item` picks one item of a list value; in a Condition's state, the items from there on.
    """

    key: str
    item: int | None = None


Part = str | Read


@dataclass(frozen=True, slots=True)
class EmbedConfig:
    """Embed one text made of parts, or the texts of a single part that is a list."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """Search for the vectors of key `vectors`."""

    vectors: str
    topk: int
    nprobe: int | None


@dataclass(frozen=True, slots=True)
class IngestConfig:
    """Store the vectors of key `vectors` for the chunk ids of key `chunk_ids`."""

    vectors: str
    chunk_ids: str


@dataclass(frozen=True, slots=True)
class PrefillConfig:
    """Prefill a prompt made of parts."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class DecodeConfig:
    """Continue the prefill of key `prefill`; `as_lines` makes the value a list of lines."""

    prefill: str
    sampling: Sampling
    as_lines: bool


@dataclass(frozen=True, slots=True)
class ConditionConfig:
    """Call `choose` with a state: slot -> read of its value, lists from `Read.item` on.

    `turn` says how often the node before it has run, from 1.
    """

    choose: Callable[[Mapping[str, Any]], object]
    state: tuple[tuple[str, Read], ...]
    turn: int


@dataclass(frozen=True, slots=True)
class CollectConfig:
    """Join the passages of several keys, each chunk once, earlier turns first."""

    parts: tuple[Read, ...]


@dataclass(frozen=True, slots=True)
class ToolConfig:
    """Call a function with the values of the reads, in order."""

    function: Callable[..., object]
    arguments: tuple[Part, ...]


Config = (
    EmbedConfig
    | SearchConfig
    | IngestConfig
    | PrefillConfig
    | DecodeConfig
    | ConditionConfig
    | CollectConfig
    | ToolConfig
)


@dataclass(frozen=True, slots=True)
class Primitive:
    """The smallest operation that is scheduled.

    `reads` and `writes` are keys of the request's object store; every key is written once.
    """

    name: str
    kind: PrimitiveKind
    node: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    config: Config
