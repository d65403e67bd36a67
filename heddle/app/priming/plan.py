"""Priming a corpus: its costs, its progress, and its result."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.app.models.model_files import ModelFiles
from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError
from heddle.core.kv_reuse import PrimedWith
from heddle.core.passages import Passage
from heddle.corpus.store import CorpusStore
from heddle.engines.llm.reuse.stored_size import stored_size
from heddle.engines.llm.text.prompt_tokenizer import PromptTokenizer
from heddle.kv.kv_encoding import KvEncoding
from heddle.workflow.presets import ANSWER

# A model with an answer prompt of its own gets that one's; other prompts find the same KV by its
# content.
PREFIX: Final = ANSWER.partition("{docs}")[0]
READ_ROWS: Final = 256
HITS_MAX: Final = 1000
IN_FLIGHT_MAX: Final = 16  # requests; one has ended when its KV is on disk
LOADS_MAX: Final = 64  # neighbours' KV on its way from disk; the store takes no more at once
HEADER_BYTES: Final = 4096  # of a stored chunk's file, at most


class PrimingStage(Enum):
    """Which KV of the chunks is computed."""

    RAW = "raw"  # behind the prompt's prefix alone: for a prompt's first chunk, and neighbours
    PRIMED = "primed"  # on top of the neighbours' raw KV


@dataclass(frozen=True, slots=True)
class PrimingPlan:
    """What priming a corpus takes: tokens of all its chunks, bytes of the longest, bytes on disk.

    `owned` counts the chunks of each tenant and collection.
    """

    chunks: int
    tokens: int
    chunk_bytes_max: int
    disk_bytes: int
    owned: Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class PrimingProgress:
    """How many chunks have their KV on disk, of how many.

    `computed` of them are new in this run; `chunks_per_s` and `seconds_left` are None until there
    are any.
    """

    stage: PrimingStage
    chunks_done: int
    chunks_total: int
    computed: int
    chunks_per_s: float | None
    seconds_left: float | None


@dataclass(frozen=True, slots=True)
class PrimingReport:
    """What a run did: chunks computed in each stage, and those longer than the context."""

    plan: PrimingPlan
    computed: dict[PrimingStage, int]
    too_long: int
    seconds: float


def plan_priming(
    config: ServerConfig, model: ModelFiles, store: CorpusStore, primed_with: PrimedWith
) -> PrimingPlan:
    """Count the tokens of every chunk as prompts show them, and what their KV takes.

    Args:
        config: says how the KV is stored.
        model: whose KV it is.
        store: the corpus; where it is primed in the other form, too, that KV is counted as well.
        primed_with: the form that is planned.

    Raises:
        ConfigError, InputError: the model's directory can't be used.
    """
    tokenizer = PromptTokenizer.from_directory(model.directory)
    size = stored_size(model.directory, KvEncoding(config.kv_reuse_encoding))
    lengths = []
    owned: Counter[tuple[str, str]] = Counter()
    for passage, _ in searchable_chunks(store):
        lengths.append(_tokens(tokenizer, passage))
        owned[passage.tenant, passage.collection] += 1
    sizes = [size.of_chunk(tokens) for tokens in lengths]
    others = [form for form in PrimedWith if form is not primed_with]
    there = sum(store.chunk_kv.neighbours_max(model.name, form) is not None for form in others)
    files = len(PrimingStage) + there
    return PrimingPlan(
        chunks=len(lengths),
        tokens=sum(lengths),
        chunk_bytes_max=max(sizes, default=0),
        disk_bytes=files * (sum(sizes) + len(sizes) * HEADER_BYTES),
        owned=owned,
    )


def hits_wanted(owned: int, chunks: int, neighbours_max: int) -> int:
    """Return how many of the nearest chunks to look among for neighbours of the same owner.

    Twice as many as would do if owners were mixed evenly: equal texts count once, too. A tenant
    of a corpus that is mostly others' may get fewer neighbours than are asked for.

    Args:
        owned: chunks of the same tenant and collection.
        chunks: all of the corpus.
        neighbours_max: how many neighbours are wanted.
    """
    share = max(1, owned) / max(1, chunks)
    return min(HITS_MAX, 1 + math.ceil(2 * neighbours_max / share))


def chunks_at_once(config: ServerConfig, plan: PrimingPlan, neighbours_max: int) -> int:
    """Return how many chunks may be primed at once: all their neighbours' KV is held in memory.

    Raises:
        ConfigError: not even one chunk's neighbours fit into kv_reuse_memory_bytes.
    """
    neighbours_bytes = neighbours_max * plan.chunk_bytes_max
    if neighbours_bytes > config.kv_reuse_memory_bytes:
        raise ConfigError(
            f"the KV of {neighbours_max} neighbours takes up to {neighbours_bytes:,} bytes of "
            f"memory, more than kv_reuse_memory_bytes ({config.kv_reuse_memory_bytes:,}): "
            "raise it, or lower neighbours_max (--prime-neighbours)"
        )
    fitting = config.kv_reuse_memory_bytes // max(1, neighbours_bytes)
    return max(1, min(IN_FLIGHT_MAX, fitting, LOADS_MAX // neighbours_max))


def searchable_chunks(store: CorpusStore) -> Iterator[tuple[Passage, NDArray[np.float32]]]:
    """Give the corpus's searchable chunks with their vectors, a few in memory at a time."""
    for batch in store.vectors(batch_rows=READ_ROWS):
        chunk_ids = batch.chunk_ids.tolist()
        found = {passage.chunk_id: passage for passage in store.passages(chunk_ids)}
        for chunk_id, vector in zip(chunk_ids, batch.vectors, strict=True):
            if chunk_id in found:  # else it was deleted meanwhile
                yield found[chunk_id], vector


def _tokens(tokenizer: PromptTokenizer, passage: Passage) -> int:
    _, _, segment, _ = tokenizer.encode_prompt((PREFIX, passage))
    return len(segment.token_ids or ())
