"""Engines over a store of chunk KV whose files lie on a disk of a known speed."""

import itertools
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from transformers import LlamaForCausalLM

from benchmarks.llm_parity import NoText
from benchmarks.support.engine_driver import EngineDriver, Prompt
from benchmarks.support.page_cache import drop_page_cache
from benchmarks.support.random_llama import random_tokens
from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.core.payloads import Segment, SegmentRole
from heddle.core.tasks import Optimizations
from heddle.costs.load_choice import choose_loads
from heddle.engines.llm.build import LlmSettings, assemble
from heddle.engines.llm.engine import LlmEngine
from heddle.engines.llm.model.worker import WorkerClock
from heddle.kv.chunk_directory import Fetch, Found
from heddle.kv.chunk_entry import ChunkEntry
from heddle.kv.chunk_record import ChunkRecord
from heddle.kv.chunk_store import ChunkStore, ChunkStoreSettings

HOST_BYTES: Final = 4 << 30
MODEL: Final = "random Llama"  # what the stored KV belongs to
STORING: Final = KvReuse(ReusePolicy.FUSIONRAG, always=True)


class BlockingStore(ChunkStore):
    """Waits for each load where it is asked for; the engine takes no step meanwhile.

    The engine believes that loads cost nothing while it has others to compute, so the choice is
    made here.

    Args:
        saved_token_s: what loading a token saves [s].
    """

    def __init__(
        self, settings: ChunkStoreSettings, fingerprint: str, saved_token_s: float
    ) -> None:
        super().__init__(settings, fingerprint, WorkerClock())
        self._saved_token_s = saved_token_s
        self._ended = threading.Event()
        super().subscribe(self._ended.set)

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Keep no subscriber: no caller waits for a load."""

    def predicted_load_s(self, found: Iterable[Found]) -> list[float]:
        """Return 0 for what is worth waiting for, and infinity for what is to be prefilled."""
        chunks = list(found)
        ends_s = super().predicted_load_s(chunks)
        order = sorted(range(len(chunks)), key=ends_s.__getitem__)
        prefill_s = [self._saved_token_s * chunks[i].record.tokens for i in order]
        loads = choose_loads([ends_s[i] for i in order], prefill_s).loads
        loaded = frozenset(order[:loads])
        return [0.0 if i in loaded else math.inf for i in range(len(chunks))]

    def fetch(self, key: bytes, record: ChunkRecord | None = None) -> ChunkEntry | Fetch:
        """Return an entry, pinned, once it is in host memory."""
        while True:
            self._ended.clear()
            fetched = super().fetch(key, record)
            if fetched is not Fetch.LOADING:
                return fetched
            self._ended.wait()
            self.release(key)


def engine_over(
    model: LlamaForCausalLM, store: ChunkStore, kv_bytes: int, attention: str = "auto"
) -> LlmEngine:
    """Return a new engine over a store, which the caller closes."""
    settings = LlmSettings(
        Path("in memory"), attention=attention, kv_bytes=kv_bytes, chunk_kv_bytes=HOST_BYTES
    )
    return assemble("llm", 1, settings, model, MODEL, NoText(), chunk_cache=store)


def open_store(settings: ChunkStoreSettings) -> ChunkStore:
    """Return a store of that model's KV."""
    return ChunkStore(settings, MODEL, WorkerClock())


def store_chunks(
    model: LlamaForCausalLM, store: ChunkStore, prompts: Iterable[Prompt], kv_bytes: int
) -> None:
    """Compute every chunk behind what the first prompt begins with, and store its KV."""
    driver = EngineDriver(engine_over(model, store, kv_bytes))
    shown = list(prompts)
    prefix, question = shown[0][0], Segment(random_tokens(1, 0))
    parts = itertools.chain.from_iterable(shown)
    for chunk in dict.fromkeys(part for part in parts if part.role is SegmentRole.CHUNK):
        driver.first_token_s((prefix, chunk, question), STORING, Optimizations.APPROX)
        store.flush()


@dataclass(frozen=True, slots=True)
class ChunksOnDisk:
    """Files of chunk KV, to be found by engine after engine as by the first one."""

    settings: ChunkStoreSettings
    folder: Path
    files: frozenset[Path]

    @classmethod
    def of(
        cls,
        model: LlamaForCausalLM,
        prompts: Iterable[Prompt],
        settings: ChunkStoreSettings,
        kv_bytes: int,
    ) -> "ChunksOnDisk":
        """Store the chunks of prompts in the folder that the settings name."""
        assert settings.directory is not None, "the chunks are to lie on disk"
        with closing(open_store(settings)) as store:
            store_chunks(model, store, prompts, kv_bytes)
        return cls(settings, settings.directory, frozenset(_files(settings.directory)))

    @contextmanager
    def cold(self, blocking_token_s: float | None = None) -> Iterator[ChunkStore]:
        """Give a store that has read none of them; nor has the system lately.

        blocking_token_s: what loading a token saves [s], for one that waits where it loads.
        """
        for left in _files(self.folder) - self.files:
            left.unlink()  # what an earlier run has added
        drop_page_cache(self.files)
        if blocking_token_s is None:
            store = open_store(self.settings)
        else:
            store = BlockingStore(self.settings, MODEL, blocking_token_s)
        with closing(store):
            yield store


def _files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}
