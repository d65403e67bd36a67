"""Seconds that a chunk's KV takes to prime, one chunk and ten at a time. (FusionRAG §3.1)

The paper's figure: Qwen2.5-7B-Instruct on a GPU, HotpotQA's chunks, ten at a time: 0.218 s a chunk.

Who is compared with whom: the passages of real multi-hop questions, each primed on top of its 10
nearest (the paper's form) and on top of what precedes it and the nearest (ADR 20); batch 1: a chunk
begins when the one before it lies on disk; batch 10: ten are under way. `raw_s` is the KV of a
passage behind the prompt's head alone, which is computed once and which its neighbours' priming
reuses; `primed_s` is the rest. `full_s` is what a prompt of the passage and its neighbours takes
without stored KV, one after another: `x_full` is how much faster priming is. Times hold the write
to disk, not the search for neighbours. Small models: read ratios, not seconds.

--model NAME: the reader, smollm2, smollm2-multihop, or any that `heddle ask` takes.

Headline: seconds a chunk, raw and primed together, of the paper's form at each batch, their ratio,
and `x_full` at a batch of 1.
"""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Final

import torch

from benchmarks.support.neighbours import Neighbourhood, shown_passages
from benchmarks.support.reusing_model import Prompts, ReusingModel, stages_of
from heddle.app.models.model_source import READER
from heddle.core.kv_reuse import FULL_ATTENTION, PrimedWith
from heddle.core.passages import Passage
from heddle.evals.catalogue import load_dataset
from heddle.evals.context import sample
from heddle.evals.dataset import Dataset
from heddle.evals.question import EvalQuestion

DATASET: Final = "wiki_multihop"
QUICK_DATASET: Final = "reader-notes"
CHUNKS, CHUNKS_QUICK = 200, 20
NEIGHBOURS, NEIGHBOURS_QUICK = 10, 3
BATCHES: Final = (1, 10)
QUESTIONS, QUESTIONS_QUICK = 40, 4  # whose passages are primed


def run(quick: bool, seed: int, *, model: str = READER) -> dict[str, object]:
    """Prime the same passages in every form and batch; the headline is of the paper's form."""
    prompts = Prompts.of(model)
    whole = load_dataset(QUICK_DATASET if quick else DATASET)
    asked = Dataset(whole.name, sample(whole, QUESTIONS_QUICK if quick else QUESTIONS, seed))
    passages = shown_passages(asked)[: CHUNKS_QUICK if quick else CHUNKS]
    near = Neighbourhood(asked, asked if quick else whole, seed)
    count = NEIGHBOURS_QUICK if quick else NEIGHBOURS
    rows = []
    for form in (PrimedWith.NEAREST, PrimedWith.PRECEDING):
        nearest_only = form is PrimedWith.NEAREST
        neighbours = {p: near.of(p, count, nearest_only=nearest_only) for p in passages}
        full_s = _full_s(prompts, neighbours)
        rows += [_row(prompts, neighbours, form, batch, full_s) for batch in BATCHES]
    one, ten = (row for row in rows if row["primed_with"] == PrimedWith.NEAREST.value)
    alone_s, together_s = (float(str(row["chunk_s"])) for row in (one, ten))
    return {
        "settings": {
            "model": model,
            "dataset": whole.name,
            "chunks": len(passages),
            "neighbours": count,
            "threads": torch.get_num_threads(),
        },
        "rows": rows,
        "headline": {
            "chunk_s_batch_1": alone_s,
            "chunk_s_batch_10": together_s,
            "x_batch_10": alone_s / together_s,
            "x_full_batch_1": float(str(one["x_full"])),
        },
    }


def _row(
    prompts: Prompts,
    neighbours: Mapping[Passage, Sequence[Passage]],
    form: PrimedWith,
    batch: int,
    full_s: float,
) -> dict[str, object]:
    """Prime into an empty folder."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(ReusingModel(prompts, Path(folder))) as model,
    ):
        raw_s, primed_s = (
            _seconds_each(model, shown, form, batch) for shown in stages_of(neighbours)
        )
    row: dict[str, object] = {
        "primed_with": form.value,
        "batch": batch,
        "raw_s": raw_s,
        "primed_s": primed_s,
        "chunk_s": raw_s + primed_s,
        "full_s": full_s,
        "x_full": full_s / (raw_s + primed_s),
    }
    print("  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()))
    return row


def _seconds_each(
    model: ReusingModel, shown: Sequence[Sequence[Passage]], form: PrimedWith, batch: int
) -> float:
    started_s = perf_counter()
    stored = sum(model.store(shown, form, batch))
    assert stored == len(shown), "a passage was lost"
    return (perf_counter() - started_s) / len(shown)


def _full_s(prompts: Prompts, neighbours: Mapping[Passage, Sequence[Passage]]) -> float:
    """Return what prompts of a passage and its neighbours take, all of it computed, each [s]."""
    asked = [
        EvalQuestion(str(passage.chunk_id), "?", (), (*reversed(near), passage))
        for passage, near in neighbours.items()
    ]
    fitting = list(filter(prompts.fit, asked))
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(ReusingModel(prompts, Path(folder))) as model,
    ):
        started_s = perf_counter()
        for question in fitting:
            model.prompt_kv(question, FULL_ATTENTION)
        return (perf_counter() - started_s) / len(fitting)
