"""How long steps take by what is in them: the LLM's prompts and decodes, the encoder's batches.

Random weights. Some steps are timed by transformers' own layers, too (`library`), with our
attention: `x_library_...` is their time over that of our layers. `knee_tokens`: the fewest tokens
of a prompt's step from which nine tenths of the best throughput are reached; `chunk_tokens`: what
an engine takes, where steps are short, too.
"""

import math
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from transformers import LlamaForCausalLM

from benchmarks.gpu.place import Note, Place
from benchmarks.gpu.random_models import BERT_LARGE, TINY_ENCODER, encoder_directory
from benchmarks.support.random_llama import FIRST_TOKEN, Shape, random_llama
from heddle.core.errors import InternalError
from heddle.encoder.encoder_directory import EncoderDirectory
from heddle.engines.embedding.recorded_encoder import BATCH_TOKENS_MAX, ROW_COUNTS
from heddle.engines.embedding.worker import TransformerWorker
from heddle.engines.llm.attention.choice import TRITON
from heddle.engines.llm.model.gpu_layers import fuse_on_gpu
from heddle.engines.llm.model.worker import TransformersWorker, WorkerClock
from heddle.engines.llm.prompt_chunk import measured_chunk
from heddle.engines.llm.step_batch import BatchRow, Draw, StepBatch
from heddle.engines.llm.step_curve import StepPoint, prompt_chunk
from heddle.kernels.cuda_recorder import CudaRecorder
from heddle.kv.rows import SlotRun

SEVEN_B = Shape("7B", 28, 3584, 28, 18944, kv_heads=4)
TINY = Shape("tiny", 2, 32, 2, 64, kv_heads=1)
REPETITIONS = 5
RECORDED_ROWS = 16  # of steps that are recorded, and fewer: 64 and 256 rows are launched twice
COSINE_MIN = 0.999  # of a text's vectors in two batches (docs/guide/embedding.md)
CONTEXT = 8192  # behind which a prompt's chunk is computed, too


def measure_llm(place: Place, note: Note) -> dict[str, float]:
    """Time steps of prompts and of decodes."""
    shape = place.sized(SEVEN_B, TINY)
    slots = place.sized(1 << 18, 1 << 10)
    model = random_llama(shape, 0, place.sized(1 << 15, 512), place.device.type)
    library = _by_the_library(place, note, model)
    fuse_on_gpu(model)
    worker = TransformersWorker(model, slots, attention=TRITON)
    lengths = place.sized((16, 64, 256, 512, 1024, 2048, 4096, 8192), (8, 32))
    speeds: dict[int, float] = {}
    for before in (0, place.sized(CONTEXT, 32)):
        for tokens in lengths:
            batch = prompt(before, tokens)
            seconds = _seconds(place, lambda b=batch: worker.run(b))
            speed = tokens / seconds
            if not before:
                speeds[tokens] = speed
            note({"step": "prompt", "tokens": tokens, "behind": before, **_told(seconds, speed)})
    found = {
        **{f"x_library_prompt_{n}": s * speeds[n] / n for n, s in library.items()},
        "prompt_tokens_per_s": max(speeds.values()),
        "knee_tokens": knee(speeds),
        "chunk_tokens": float(measured_chunk(worker, lengths[-1], WorkerClock())),
    }
    found |= _decode_steps(place, note, worker, slots, "decode")
    if not place.is_interpreted:  # the interpreter has nothing to record with
        worker.record_decodes(CudaRecorder(place.device), RECORDED_ROWS, slots // RECORDED_ROWS)
        found |= _decode_steps(place, note, worker, slots, "recorded_decode")
    return found


def _by_the_library(place: Place, note: Note, model: LlamaForCausalLM) -> dict[int, float]:
    """Return how long steps of prompts take by transformers' layers [s], by their tokens."""
    lengths = place.sized((64, 1024, 8192), (8,))
    worker = TransformersWorker(model, lengths[-1], attention=TRITON)
    found = {}
    for tokens in lengths:
        batch = prompt(0, tokens)
        found[tokens] = _seconds(place, lambda b=batch: worker.run(b))
        told = _told(found[tokens], tokens / found[tokens])
        note({"step": "prompt, library", "tokens": tokens, "behind": 0, **told})
    return found


def _decode_steps(
    place: Place, note: Note, worker: TransformersWorker, slots: int, name: str
) -> dict[str, float]:
    """Time steps of decodes."""
    found = {}
    for context in place.sized((512, 4096, 16384), (32,)):
        for rows in place.sized((1, 4, RECORDED_ROWS, 64, 256), (1, 3)):
            if rows * context > slots:
                continue
            batch = decodes(rows, context)
            seconds = _seconds(place, lambda b=batch: worker.run(b))
            note({"step": name, "rows": rows, "context": context} | _told(seconds, rows / seconds))
            found[f"{name}_ms_{rows}x{context}"] = 1e3 * seconds
    return found


def measure_encoder(place: Place, note: Note) -> dict[str, float]:
    """Time batches of an encoder of BERT-large's shape, launched and, where they are, recorded.

    Raises:
        InternalError: vectors of a recorded batch aren't those of the launched one.
    """
    launched, recorded = (_encoder(place, is_recorded=flag) for flag in (False, True))
    speeds: dict[int, float] = {}
    found: dict[str, float] = {}
    for length in place.sized((16, 64, 128, 256, 512), (8, 16)):
        for rows in place.sized((1, 8, 32, 128, 512), (1, 4)):
            for name, worker in (("launched", launched), ("recorded", recorded)):
                if name == "recorded" and not _is_recorded(place, rows, length):
                    continue
                batch = [range(5, 5 + length)] * rows
                seconds = _seconds(place, lambda b=batch, w=worker: w.embed(b))
                speed = rows * length / seconds
                speeds[rows * length] = max(speeds.get(rows * length, 0.0), speed)
                note({"batch": name, "rows": rows, "tokens": length, **_told(seconds, speed)})
                found[f"{name}_ms_{rows}x{length}"] = 1e3 * seconds
    cosine = _recorded_cosine(launched, recorded, place.sized((1, 3, 8, 30), (1, 3)))
    found |= {"tokens_per_s": max(speeds.values()), "knee_tokens": knee(speeds)}
    return {**found, "recorded_min_cosine": cosine}


def _encoder(place: Place, *, is_recorded: bool) -> TransformerWorker:
    sizes = place.sized(BERT_LARGE, TINY_ENCODER)
    directory = EncoderDirectory.open(str(encoder_directory(sizes)))
    dtype = str(place.dtype).removeprefix("torch.")
    return TransformerWorker.load(
        directory, dtype, place.device.type, threads=1, is_recorded=is_recorded
    )


def _is_recorded(place: Place, rows: int, length: int) -> bool:
    """Whether a batch of a shape is; the interpreter has nothing to record with."""
    return (
        not place.is_interpreted and rows <= max(ROW_COUNTS) and rows * length <= BATCH_TOKENS_MAX
    )


def _recorded_cosine(
    launched: TransformerWorker, recorded: TransformerWorker, row_counts: tuple[int, ...]
) -> float:
    """Return the smallest cosine of a text's vectors in batches of texts of many lengths.

    Raises:
        InternalError: it is below what a batch may change.
    """
    smallest = 1.0
    for rows in row_counts:
        batch = [range(5, 21 + 7 * row) for row in range(rows)]
        expected = launched.embed(batch)
        cosines = (recorded.embed(batch) * expected).sum(axis=1)
        smallest = min(smallest, float(cosines.min()))
    if not smallest >= COSINE_MIN:
        raise InternalError(f"vectors of recorded batches have a cosine of {smallest:.4f}")
    return smallest


def knee(speeds: dict[int, float]) -> float:
    """Return the fewest tokens whose speed is nearly the best."""
    points = [StepPoint(tokens, tokens / speed) for tokens, speed in speeds.items()]
    return float(prompt_chunk(points, math.inf).tokens)


def _told(seconds: float, per_s: float) -> dict[str, object]:
    return {"ms": round(1e3 * seconds, 3), "per_s": round(per_s, 1)}


def prompt(before: int, tokens: int) -> StepBatch:
    """Return a step of one prompt's tokens, of which `before` are there already."""
    places = np.arange(before, before + tokens)
    stop = before + tokens
    row = BatchRow(0, tokens, stop, (SlotRun(0, stop),), Draw())
    return StepBatch(np.full(tokens, FIRST_TOKEN), places, places, (row,))


def decodes(rows: int, context: int) -> StepBatch:
    """Return a step of one token of each of some sequences."""
    own = tuple(
        BatchRow(row, row + 1, context, (SlotRun(row * context, context),), Draw())
        for row in range(rows)
    )
    positions = np.full(rows, context - 1)
    slots = np.arange(1, rows + 1) * context - 1
    return StepBatch(np.full(rows, FIRST_TOKEN), positions, slots, own)


def _seconds(place: Place, call: Callable[[], object]) -> float:
    """Return the median time of a step [s]; the first one compiles kernels."""
    taken: list[float] = []
    for _ in range(place.sized(REPETITIONS, 1) + 1):
        started_s = time.perf_counter()
        call()
        if not place.is_interpreted:
            torch.cuda.synchronize(place.device)
        taken.append(time.perf_counter() - started_s)
    return statistics.median(taken[1:])
