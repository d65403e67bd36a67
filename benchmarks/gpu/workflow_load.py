"""`workflows` with its LLM on a GPU: Heddle beside asyncio programs, over light and heavy searches.

A random Llama of 1.2 billion writes, and a random encoder embeds: texts are noise, but work of the
usual shape. Light: the demo's archive; heavy: its passages among many neighbours, in inverted
lists; pairs: one-shot questions beside multistep and irg, heavy. What `bench workflows` proves
besides, that all contenders do the same work, is only counted here: in bfloat16 a batch changes
last digits.
"""

import asyncio
import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Final
from unittest.mock import patch

from benchmarks.contenders import hand_written
from benchmarks.coscheduling.asks import NPROBES, WORKFLOWS
from benchmarks.coscheduling.bed import FIFO, OWN, SAME, Bed, asyncio_fifo, asyncio_same, heddle
from benchmarks.coscheduling.blocks import Contender, Ran, in_turns, latencies_of
from benchmarks.coscheduling.fifo_setting import FifoSetting
from benchmarks.coscheduling.generations import differences, lacking
from benchmarks.coscheduling.heavy_index import heavy_index, lists_of
from benchmarks.coscheduling.journal import Journal
from benchmarks.coscheduling.ratios import median, p99, ratio
from benchmarks.gpu.place import Note, Place
from benchmarks.gpu.random_models import (
    MINILM,
    TINY_ENCODER,
    decoder_directory,
    encoder_directory,
)
from benchmarks.gpu.step_curves import TINY
from benchmarks.support.data import made_from
from benchmarks.support.device_lanes import DECODER
from benchmarks.support.inline_engines import inline_engines
from benchmarks.support.wiki_index import WikiIndex
from heddle.app.index_paths import index_paths
from heddle.app.models.prompt_files import prompts_of
from heddle.core.cache import write_json
from heddle.corpus.store import CorpusStore
from heddle.demo.corpus import demo_documents

LOAD: Final = 0.8
CONTEXT_TOKENS_MAX: Final = 4096
HEAVY_VECTORS: Final = 400_000
PAIRS: Final = (("oneshot", "multistep"), ("oneshot", "irg"))


def light(place: Place, note: Note) -> dict[str, float]:
    """Measure the five workflows over light searches."""
    return asyncio.run(_measured(place, note, _bed(place, "light", 0), (WORKFLOWS,)))


def heavy(place: Place, note: Note) -> dict[str, float]:
    """Measure the five workflows over heavy searches."""
    vectors = place.sized(HEAVY_VECTORS, 1000)
    return asyncio.run(_measured(place, note, _bed(place, "heavy", vectors), (WORKFLOWS,)))


def pairs(place: Place, note: Note) -> dict[str, float]:
    """Measure one-shot questions beside each of two other workflows, over heavy searches."""
    vectors = place.sized(HEAVY_VECTORS, 1000)
    mixes = place.sized(PAIRS, PAIRS[:1])
    return asyncio.run(_measured(place, note, _bed(place, "pairs", vectors), mixes))


async def _measured(
    place: Place, note: Note, bed: Bed, mixes: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Measure each mix of workflows at a load that asyncio on other engines can bear."""
    setting = FifoSetting(prompt_chunk=place.sized(2048, 256))
    found: dict[str, float] = {}
    with ExitStack() as started:
        own_prompts = prompts_of(Path(str(bed.server["llm"])))
        started.enter_context(patch.object(hand_written, "_prompts", lambda: own_prompts))
        fifo = asyncio_fifo(started.enter_context(bed.fifo_lanes(setting)))
        own = started.enter_context(bed.own_lanes(setting))
        everyone = [fifo, *place.sized([asyncio_same(own)], []), heddle(own)]
        for number, mix in enumerate(mixes):
            cell = bed.name if len(mixes) == 1 else f"{bed.name} {' '.join(mix)}"
            asks = bed.asks(place.sized(32, 4), 1, 0.0, 2 + 10 * number, mix)[0]
            capacity = await bed.capacity_per_s(fifo, asks)
            # The other engines, too, have to load libraries and compile before they are timed.
            await bed.capacity_per_s(everyone[-1], asks)
            own_capacity = await bed.capacity_per_s(everyone[-1], asks)
            note({"cell": cell, "capacity_per_s": capacity, "own_capacity_per_s": own_capacity})
            found[f"x_fifo_capacity_{cell.replace(' ', '_')}"] = own_capacity / capacity
            count, blocks = place.sized((160, 4), (2, 1))
            ran: list[Ran] = []
            for block in bed.asks(count, blocks, LOAD * capacity, 3 + 10 * number, mix):
                done = len(ran) // len(everyone)
                ran += await in_turns(everyone, cell, [block], bed.journal, first=done)
                for one in ran[-len(everyone) :]:
                    note(asdict(one.block))
            found |= _ratios(cell, ran)
    return found | _same_work(everyone)


def _ratios(cell: str, ran: Sequence[Ran]) -> dict[str, float]:
    """Return the others' latency over Heddle's."""
    taken = latencies_of(ran, cell)
    found = {}
    for name in (FIFO, SAME):
        for word, figure in (("p50", median), ("p99", p99)):
            if name in taken:
                key = f"x_{name.removeprefix('asyncio_')}_{word}_{cell.replace(' ', '_')}"
                found[key] = ratio(taken[OWN], taken[name], figure, seed=0).value
    return found


def _same_work(everyone: Sequence[Contender]) -> dict[str, float]:
    """Return how many generations Heddle made, and the shares that others made otherwise."""
    own, others = everyone[-1], everyone[:-1]
    count = max(1, len(own.generations.outputs))
    return {
        "generations": float(count),
        "differing": max(len(differences(own.generations, o.generations)) for o in others) / count,
        "lacking": max(lacking(o.generations, own.generations) for o in others) / count,
    }


def _bed(place: Place, name: str, vectors: int) -> Bed:
    """Return a corpus under load; `vectors` 0: in its own index."""
    encoder = encoder_directory(place.sized(MINILM, TINY_ENCODER))
    shape = place.sized(DECODER, TINY)
    decoder = decoder_directory(shape, CONTEXT_TOKENS_MAX, place.dtype)
    corpus, passages = _corpus(encoder, place.sized(len(demo_documents()), 20))
    server = {
        "llm": str(decoder),
        "embedder": str(encoder),
        "dtype": str(place.dtype).removeprefix("torch."),
        "device": place.device.type,
        "kv_cache_bytes": place.sized(8 << 30, 64 << 20),
    }
    wiki = WikiIndex(corpus, passages, "", "")
    index = heavy_index(wiki, vectors, seed=0) if vectors else None
    nprobes = [min(lists_of(vectors), count) for count in NPROBES] if vectors else [None]
    journal = Journal(f"gpu-{name}")
    return Bed(
        name,
        corpus,
        index,
        vectors,
        _questions(),
        0,
        2,
        1,
        2,
        journal,
        server=server,
        nprobes=nprobes,
    )


def _corpus(encoder: Path, documents: int) -> tuple[Path, int]:
    """Return the corpus of the demo's first documents, made first where it is missing."""
    ingredients = {"encoder": encoder.name, "documents": documents}
    folder = made_from("random-corpus", ingredients, by_model=True)
    done = folder / "complete.json"
    if not done.is_file():
        file = folder / "documents.jsonl"
        chosen = demo_documents()[:documents]
        file.write_text("".join(json.dumps(asdict(one)) + "\n" for one in chosen), encoding="utf-8")
        with inline_engines():
            index_paths(
                [file],
                folder / "corpus",
                embedder=encoder,
                on_documents=lambda _: None,
                on_vectors=lambda _: None,
            )
        write_json(done, {"documents": documents})
    with CorpusStore.open(folder / "corpus") as store:
        return folder / "corpus", store.vector_count


def _questions() -> list[str]:
    """Return questions about the documents: more than a part asks."""
    words = (
        "What is known of",
        "Where was the home of",
        "Who knew",
        "When was the first mention of",
    )
    return [f"{first} {document.title}?" for document in demo_documents() for first in words]
