"""What a model is computed in where the user leaves it to `auto`: one layer is timed. (ADR 46)"""

import copy
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from heddle.engines.llm.chosen_computing import (
    Candidate,
    Choice,
    candidates_of,
    kept_or_timed,
    key_of,
)
from heddle.engines.llm.model.fused_layers import can_fuse, fuse_layers
from heddle.engines.llm.model.packed_linear import can_pack, pack_linears
from heddle.engines.llm.model.worker import TransformersWorker
from heddle.engines.llm.step_batch import BatchRow, Draw, StepBatch
from heddle.kv.rows import SlotRun

PROMPT: Final = 512  # tokens of a prompt with its passages
ANSWER: Final = 24
SEQUENCES: Final = 4  # that decode together
REPETITIONS: Final = 5
TIMING_S_MAX: Final = 1.0  # of one kind of step, in which a last repetition begins
VOCABULARY: Final = 64
DTYPES: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def choose_computing(
    model_dir: Path,
    config: Any,  # noqa: ANN401 - transformers' class
    dtype: str,
    attention: str,
) -> Choice:
    """Return the number type and the attention for a model on this CPU.

    Args:
        model_dir: where its files are.
        config: transformers' configuration of it.
        dtype: what is wanted: float32, bfloat16 or auto.
        attention: what is wanted: torch, compiled or auto.
    Raises: ConfigError: HEDDLE_AUTO_DTYPE names another dtype.
    """
    candidates = candidates_of(dtype, attention)
    key = key_of(model_dir, candidates, torch.get_num_threads())
    return kept_or_timed(key, candidates, lambda candidate: _layer_s(config, candidate))


def _one_layer(config: Any) -> Any:  # noqa: ANN401 - transformers' class
    """Return the configuration of a model of the same layers, but only one of them."""
    small = copy.deepcopy(config)
    small.num_hidden_layers, small.vocab_size = 1, VOCABULARY
    small.bos_token_id = small.eos_token_id = small.pad_token_id = None
    if getattr(small, "layer_types", None):
        small.layer_types = small.layer_types[:1]
    return small


def _layer_s(whole: Any, candidate: Candidate) -> float:  # noqa: ANN401
    """Return what one layer takes for a prompt, and for its answer beside others [s]."""
    config = _one_layer(whole)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=DTYPES[candidate.dtype]).eval()
    model.to_empty(device="cpu")
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data.fill_(0.01)  # any numbers, but none: those take longer
    if can_fuse(model):
        fuse_layers(model)
    if can_pack(model.device, model.dtype):
        pack_linears(model)
    tokens = min(PROMPT, config.max_position_embeddings)
    worker = TransformersWorker(model, SEQUENCES * tokens, attention=candidate.attention)
    prompt = _step([(0, tokens)])
    decodes = _step([(tokens - 1, tokens)] * SEQUENCES)
    return _least_s(worker, prompt) + ANSWER / SEQUENCES * _least_s(worker, decodes)


def _step(spans: list[tuple[int, int]]) -> StepBatch:
    """Return a step of several sequences, which compute [start, stop) of all their tokens."""
    rows, positions, slots, first = [], [], [], 0
    for number, (start, stop) in enumerate(spans):
        base, queries = number * stop, stop - start
        rows.append(BatchRow(first, first + queries, stop, (SlotRun(base, stop),), Draw()))
        positions.append(np.arange(start, stop, dtype=np.int64))
        slots.append(positions[-1] + base)
        first += queries
    ids = np.zeros(first, dtype=np.int64)
    return StepBatch(ids, np.concatenate(positions), np.concatenate(slots), tuple(rows))


def _least_s(worker: TransformersWorker, step: StepBatch) -> float:
    worker.run(step)  # the first one brings code and memory
    taken: list[float] = []
    while not taken or (len(taken) < REPETITIONS and sum(taken) < TIMING_S_MAX):
        started_s = perf_counter()
        worker.run(step)
        taken.append(perf_counter() - started_s)
    return min(taken)
