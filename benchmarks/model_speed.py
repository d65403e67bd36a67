"""How fast a model reads and writes here: tokens per second of prefill and decode.

The shipped reader, or --model NAME, in the dtype that the engine takes by itself, or --dtype NAME.

* prefill: one prompt of 2,048 tokens (512 with --quick), up to its first token;
* decode: `ANSWER` tokens after a prompt of 128, for one sequence and for 16 at once, the
  prefill's time taken off.

--against transformers (which it is by itself): `generate` on the same weights and threads, in the
same dtype; of one token for the prefill, all prompts as one batch for decoding.
--against llama.cpp: Heddle with `--weights int8` beside llama.cpp on weights of Q8_0 and as many
threads, with steps of 512 and of 2,048 tokens, of which the faster counts. SmolLM2 alone, from the
file that the model comes from. llama-cpp-python is asked; the variable LLAMA_CPP_BUILDS names
folders with builds of libllama.so, of which the first that doesn't crash is taken: one with AMX
first. Besides, in a process of its own: load_s, the CPU seconds of loading with int8 once the
libraries are there and the weights in the cache, and peak_ratio, the most memory beyond the
libraries' over that of weights and KV pages.

Repetitions are interleaved; the figures are medians. Random token ids, no early stop.

Where the CPU has more than AVX2, transformers and Heddle are run again in float32, held to it.
`worst_...` is the smaller ratio of both runs.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import torch
from transformers import GenerationConfig, LlamaForCausalLM

from benchmarks.support.contender_process import ROOT
from benchmarks.support.engine_driver import EngineDriver, Prompt
from benchmarks.support.held_run import held_rows, marked
from benchmarks.support.llama_cpp import LlamaCpp, llama_cpp
from heddle.app.models.model_source import READER, model_directory
from heddle.core.dtypes import INT8, WHOLE
from heddle.core.errors import InputError
from heddle.core.frames import Progress
from heddle.core.kv_reuse import FULL_ATTENTION
from heddle.core.payloads import Segment
from heddle.core.results import Prefilled
from heddle.core.tasks import Optimizations
from heddle.engines.llm.build import LlmSettings, build_engine, dtype_of
from heddle.engines.llm.model.gate import load_config
from heddle.engines.llm.quantized.quantized_model import load_quantized

REPETITIONS: Final = 5
PROMPT: Final = 2048
PROMPT_QUICK: Final = 512
SHORT_PROMPT: Final = 128
ANSWER: Final = 64
BATCHES: Final = (1, 16)
TRANSFORMERS: Final = "transformers"
LLAMA_CPP: Final = "llama.cpp"
AGAINST: Final = (TRANSFORMERS, LLAMA_CPP)
# What each is compared with: weights of as many bits.
WEIGHTS_BESIDE: Final = {TRANSFORMERS: WHOLE, LLAMA_CPP: INT8}

# Seconds of prompts and their answers, up to the first tokens or from there on.
Seconds = Callable[[torch.Tensor, int], float]


@dataclass(frozen=True, slots=True)
class Shape:
    """Sequences at once, the tokens of each prompt, and those of each answer."""

    sequences: int
    prompt: int
    answer: int

    @property
    def part(self) -> str:
        """What is timed."""
        return "prefill" if self.answer == 1 else "decode"

    @property
    def tokens(self) -> int:
        """Tokens that are counted."""
        return self.prompt if self.answer == 1 else self.sequences * self.answer

    @property
    def name(self) -> str:
        """What the headline calls it."""
        return self.part if self.answer == 1 else f"{self.part}{self.sequences}"


def run(
    quick: bool, seed: int, model: str = READER, dtype: str = "auto", against: str = TRANSFORMERS
) -> dict[str, object]:
    """Time them; headline tokens/s of prefill and decode, and how many times a contender's.

    Raises:
        ConfigError: there is no such model or dtype, or it can't be served.
        InputError: there is no such contender, or it isn't installed.
    """
    others = tuple(against.split(","))
    if unknown := [name for name in others if name not in AGAINST]:
        raise InputError(f"--against is {unknown[0]!r}; name some of {', '.join(AGAINST)}")
    directory = model_directory(model)
    settings = LlmSettings(
        directory, dtype=dtype, max_num_seqs=max(BATCHES), max_num_batched_tokens=PROMPT
    )
    taken = dtype_of(settings)
    with ExitStack() as stack:
        timed: dict[str, Seconds] = {}
        notes: dict[str, object] = {}
        if TRANSFORMERS in others:
            theirs = LlamaForCausalLM.from_pretrained(directory, dtype=taken).eval()
            timed[WHOLE] = _Ours.of(settings).seconds
            timed[TRANSFORMERS] = _Theirs(theirs).seconds
        if LLAMA_CPP in others:
            contender = stack.enter_context(llama_cpp(model, torch.get_num_threads()))
            notes = {"llama_cpp": contender.build, "crashed": contender.crashed}
            timed[INT8] = _Ours.of(settings, INT8).seconds
            timed[LLAMA_CPP] = _LlamaCppSeconds(contender).seconds
        vocabulary = int(load_config(directory).vocab_size)
        own = _rows(timed, others, vocabulary, quick=quick, seed=seed)
        name = str(taken).removeprefix("torch.")
        rows = marked([{**row, "dtype": name} for row in own])
    if TRANSFORMERS in others:
        options = ("--model", model, "--dtype", "float32")
        rows += held_rows("model-speed", quick=quick, seed=seed, options=options)
    loaded = _loaded(directory, dtype, taken) if LLAMA_CPP in others else {}
    return {
        "settings": {
            "model": model,
            "dtype": str(taken),
            "threads": torch.get_num_threads(),
            **notes,
        },
        "rows": rows + ([{"part": "load", **loaded}] if loaded else []),
        "headline": {
            **_headline(rows),
            **{k: loaded[k] for k in ("load_s", "peak_ratio") if loaded},
        },
    }


def _rows(
    timed: Mapping[str, Seconds],
    others: tuple[str, ...],
    vocabulary: int,
    *,
    quick: bool,
    seed: int,
) -> Iterator[dict[str, Any]]:
    """Yield a row for each shape and contender."""
    generator = torch.Generator().manual_seed(seed)
    prompt = PROMPT_QUICK if quick else PROMPT
    shapes = [Shape(1, prompt, 1), *(Shape(batch, SHORT_PROMPT, ANSWER) for batch in BATCHES)]
    seconds: dict[tuple[Shape, str], list[float]] = {}
    for _ in range(1 if quick else REPETITIONS):
        for shape in shapes:
            size = (shape.sequences, shape.prompt)
            ids = torch.randint(min(300, vocabulary // 2), vocabulary, size, generator=generator)
            for name, take in timed.items():
                seconds.setdefault((shape, name), []).append(take(ids, shape.answer))
    for other in others:
        weights = WEIGHTS_BESIDE[other]
        for shape in shapes:
            ours_s = statistics.median(seconds[shape, weights])
            theirs_s = statistics.median(seconds[shape, other])
            yield {
                "part": shape.part,
                "name": shape.name,
                "sequences": shape.sequences,
                "tokens": shape.tokens,
                "weights": weights,
                "tokens_per_s": round(shape.tokens / ours_s),
                "against": other,
                "their_tokens_per_s": round(shape.tokens / theirs_s),
                "x": round(theirs_s / ours_s, 2),
            }


def _headline(rows: list[dict[str, Any]]) -> dict[str, float]:
    headline: dict[str, float] = {}
    for row in rows:
        other = f"{row['against'].replace('.', '')}_{row['name']}"
        headline[f"worst_{other}"] = min(headline.get(f"worst_{other}", row["x"]), row["x"])
        if row["held"] != rows[0]["held"]:
            continue
        own = row["name"] if row["weights"] == WHOLE else f"{row['weights']}_{row['name']}"
        headline[f"{own}_tokens_per_s"] = row["tokens_per_s"]
        headline[f"x_{other}"] = row["x"]
    return headline


def _loaded(directory: Path, dtype: str, taken: torch.dtype) -> dict[str, float]:
    """Return what loading with int8 takes, in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.contenders.engine_load",
        str(directory),
        dtype,
        INT8,
    ]
    said = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    found: dict[str, float] = json.loads(said.splitlines()[-1])
    model = load_quantized(directory, load_config(directory), taken, torch.device("cpu"))
    panels = {
        m.panels.data.data_ptr(): m.panels.data for m in model.modules() if hasattr(m, "panels")
    }
    weight_bytes = sum(data.numel() for data in panels.values())
    ratio = found["peak_bytes"] / (weight_bytes + found["kv_bytes"])
    return {**found, "weight_bytes": weight_bytes, "peak_ratio": round(ratio, 2)}


class _Ours:
    def __init__(self, driver: EngineDriver) -> None:
        self._driver = driver

    @classmethod
    def of(cls, settings: LlmSettings, weights: str = WHOLE) -> "_Ours":
        return cls(EngineDriver(build_engine("llm", 1, replace(settings, weights=weights))))

    def seconds(self, ids: torch.Tensor, answer: int) -> float:
        """Return the seconds up to the first token, or from there to the last of `answer`."""
        prompts: list[Prompt] = [(Segment(tuple(row)),) for row in ids.tolist()]
        started_s = perf_counter()
        open_tasks: set[int] = set()
        for prompt in prompts:
            open_tasks |= set(self._driver.ask(prompt, FULL_ATTENTION, Optimizations.OFF, answer))
        waiting = len(prompts)
        first_s = started_s
        while open_tasks:
            for task, result in self._driver.step():
                if isinstance(result, Progress):
                    continue
                open_tasks.discard(task)
                if isinstance(result, Prefilled):
                    self._driver.release(result.handle)
                    waiting -= 1
                    first_s = first_s if waiting else perf_counter()
        ended_s = perf_counter()
        return ended_s - started_s if answer == 1 else ended_s - first_s


class _Theirs:
    def __init__(self, model: LlamaForCausalLM) -> None:
        self._model = model

    def seconds(self, ids: torch.Tensor, answer: int) -> float:
        """Return the seconds of `generate`; of more than one token, less those of the first."""
        whole_s = self._generate(ids, answer)
        return whole_s if answer == 1 else whole_s - self._generate(ids, 1)

    def _generate(self, ids: torch.Tensor, answer: int) -> float:
        settings = GenerationConfig(
            max_new_tokens=answer, do_sample=False, pad_token_id=0, eos_token_id=None
        )
        started_s = perf_counter()
        with torch.inference_mode():
            out = self._model.generate(
                ids, attention_mask=torch.ones_like(ids), generation_config=settings
            )
        assert out.shape[1] == ids.shape[1] + answer
        return perf_counter() - started_s


class _LlamaCppSeconds:
    def __init__(self, contender: LlamaCpp) -> None:
        self._contender = contender

    def seconds(self, ids: torch.Tensor, answer: int) -> float:
        """Return the seconds up to the first token, or from there to the last of `answer`."""
        prefill_s, decode_s = self._contender.seconds(ids.tolist(), answer)
        return prefill_s if answer == 1 else decode_s
