"""A copy of a corpus whose popular chunks have their KV stored, as FusionRAG prepares them.

What a day's questions retrieve most is primed: raw KV, and KV on top of each chunk's neighbours
(docs/guide/kv-reuse.md). It is made once and kept in the cache; a run works on a copy, whose files
are links, and the files that it adds end with the copy.
"""

import os
import shutil
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from benchmarks.support.data import file_digest, made_from
from benchmarks.support.wiki_index import WikiIndex
from heddle.app.batch import Patience, submit_patiently
from heddle.app.models.model_source import model_directory
from heddle.app.priming.chunk_kv_disk import bytes_held, chunk_kv_directory
from heddle.app.priming.plan import hits_wanted
from heddle.app.priming.request import (
    PATIENCE_S,
    ChunkToPrime,
    NeighboursWanted,
    primed_by,
    priming_workflow,
)
from heddle.app.server import Server
from heddle.core.cache import read_json, write_json
from heddle.core.errors import InputError
from heddle.core.kv_reuse import PrimedWith
from heddle.corpus.store import CorpusStore
from heddle.runtime.handle import Handle

CHUNKS_MAX: Final = 4096
NEIGHBOURS: Final = 3  # of ten, so that the store is filled in minutes
TOPK: Final = 6  # the most that a workflow shows
IN_FLIGHT: Final = 8
MEMORY_BYTES: Final = 2 << 30
DISK_BYTES: Final = 32 << 30
SPARE_BYTES: Final = 4 << 30  # for what a run stores besides
REPORT_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class PrimedCorpus:
    """Where it is, how many of its chunks are primed, and the bytes of their KV."""

    directory: Path
    chunks: int
    kv_bytes: int

    @contextmanager
    def for_a_run(self) -> Iterator[Path]:
        """Give a copy of the corpus, whose KV files are links, for one run at a time."""
        copy = self.directory.with_name("run")
        shutil.rmtree(copy, ignore_errors=True)  # of a run that was killed
        ignored = shutil.ignore_patterns(chunk_kv_directory(self.directory).name)
        shutil.copytree(self.directory, copy, ignore=ignored)
        shutil.copytree(
            chunk_kv_directory(self.directory), chunk_kv_directory(copy), copy_function=os.link
        )
        try:
            yield copy
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    @property
    def settings(self) -> dict[str, object]:
        """The settings of a server over the copy: nothing primed has to make room."""
        return {
            "optimizations": "approx",
            "kv_reuse_memory_bytes": MEMORY_BYTES,
            "kv_reuse_disk_bytes": self.kv_bytes + SPARE_BYTES,
        }


def primed_corpus(
    wiki: WikiIndex, questions: Sequence[str], chunks_max: int = CHUNKS_MAX
) -> PrimedCorpus:
    """Return the corpus with the KV of what questions retrieve most, made or finished first.

    Args:
        wiki: the corpus.
        questions: of a day.
        chunks_max: the most chunks whose KV is stored.
    """
    reader = model_directory("reader")
    folder = made_from(
        "primed",
        {
            "corpus": wiki.directory.parent.name,
            "questions": sha256("\n".join(questions).encode()).hexdigest(),
            "model": [file_digest(path) for path in sorted(reader.glob("*.safetensors"))],
            "chunks": chunks_max,
            "neighbours": NEIGHBOURS,
        },
        by_model=True,
    )
    directory, stamp = folder / "corpus", folder / "complete.json"
    known = read_json(stamp)
    if not isinstance(known, dict):
        if not directory.exists():
            part = folder / "part"
            shutil.rmtree(part, ignore_errors=True)
            shutil.copytree(wiki.directory, part)
            part.rename(directory)
        known = {"chunks": _fill(directory, questions, chunks_max)}
        write_json(stamp, known)
    kv_bytes = bytes_held(chunk_kv_directory(directory))
    return PrimedCorpus(directory, int(known["chunks"]), kv_bytes)


def _fill(directory: Path, questions: Sequence[str], chunks_max: int) -> int:
    """Prime what questions retrieve most; return how many chunks these are."""
    with (
        Server(
            "reader",
            directory,
            dtype="float32",
            optimizations="approx",
            kv_reuse_memory_bytes=MEMORY_BYTES,
            kv_reuse_disk_bytes=DISK_BYTES,
            reprime=False,
            reranker=None,
        ) as server,
        CorpusStore.open(directory) as store,
    ):
        assert server.generator is not None, "the reader was named"
        counts: Counter[int] = Counter()
        for question in questions:
            found = server.search(question, topk=TOPK)
            counts.update(passage.chunk_id for passage in found.passages)
        chunk_ids = [chunk_id for chunk_id, _ in counts.most_common(chunks_max)]
        print(f"{len(questions)} questions retrieve {len(counts)} chunks", flush=True)
        assert server.store is not None, "it has a corpus"
        name = server.generator.name
        server.store.chunk_kv.set_neighbours_max(name, PrimedWith.PRECEDING, NEIGHBOURS)
        for neighbours in (0, NEIGHBOURS):
            _prime(server, store, chunk_ids, neighbours)
    return len(chunk_ids)


def _prime(server: Server, store: CorpusStore, chunk_ids: Sequence[int], neighbours: int) -> None:
    """Have the raw KV of chunks stored, or with neighbours the primed one."""
    hits = hits_wanted(store.vector_count, store.vector_count, NEIGHBOURS)
    workflow = priming_workflow(NeighboursWanted(neighbours), hits)
    in_flight: deque[Handle] = deque()
    reported_s = time.monotonic()
    for number, chunk_id in enumerate(chunk_ids):
        if len(in_flight) == IN_FLIGHT:
            _take(in_flight.popleft())
        (passage,), before = store.passages([chunk_id]), store.chunk_kv.passage_before(chunk_id)
        vector = store.chunk_kv.vectors_of([chunk_id]).vectors[0]
        chunk = ChunkToPrime(passage, () if before is None else (before,), vector)
        submit, inputs = chunk.request(server.submit, workflow)
        in_flight.append(submit_patiently(submit, inputs, in_flight, Patience(PATIENCE_S)))
        if time.monotonic() - reported_s > REPORT_S:
            reported_s = time.monotonic()
            print(f"{number} of {len(chunk_ids)}, {neighbours} neighbours", flush=True)
    while in_flight:
        _take(in_flight.popleft())


def _take(handle: Handle) -> None:
    try:
        primed_by(handle)
    except InputError:
        return  # longer than the context: no prompt shows it either
