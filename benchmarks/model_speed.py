"""How fast a model reads and writes here: tokens per second of prefill and decode.

The shipped reader, or --model NAME, beside transformers on the same weights and threads, and in the
same dtype: what the engine takes by itself, or --dtype NAME.

* prefill: one prompt of 2,048 tokens (512 with --quick), up to its first token; transformers:
  `generate` of one token;
* decode: `ANSWER` tokens after a prompt of 128, for one sequence and for 16 at once, the
  prefill's time taken off; transformers: `generate`, all prompts as one batch.

Repetitions are interleaved; the figures are medians. Random token ids, no early stop.

Where the CPU has more than AVX2, both are run again in float32, held to it. `worst_...` is the
smaller one of both runs, over transformers'.
"""

import statistics
from collections.abc import Mapping
from time import perf_counter
from typing import Any, Final

import torch
from transformers import GenerationConfig, LlamaForCausalLM

from benchmarks.support.engine_driver import EngineDriver, Prompt
from benchmarks.support.held_run import held_rows, marked
from heddle.app.models.model_source import READER, model_directory
from heddle.core.frames import Progress
from heddle.core.kv_reuse import FULL_ATTENTION
from heddle.core.payloads import Segment
from heddle.core.results import Prefilled
from heddle.core.tasks import Optimizations
from heddle.engines.llm.build import LlmSettings, build_engine, dtype_of

REPETITIONS: Final = 5
PROMPT: Final = 2048
PROMPT_QUICK: Final = 512
SHORT_PROMPT: Final = 128
ANSWER: Final = 64
BATCHES: Final = (1, 16)


def run(quick: bool, seed: int, model: str = READER, dtype: str = "auto") -> dict[str, object]:
    """Time both; headline tokens/s of prefill and decode, and times transformers'.

    Raises: ConfigError: there is no such model or dtype, or it can't be served.
    """
    directory = model_directory(model)
    settings = LlmSettings(
        directory, dtype=dtype, max_num_seqs=max(BATCHES), max_num_batched_tokens=PROMPT
    )
    taken = dtype_of(settings)
    ours = _Ours(EngineDriver(build_engine("llm", 1, settings)))
    theirs = _Theirs(LlamaForCausalLM.from_pretrained(directory, dtype=taken).eval())
    generator = torch.Generator().manual_seed(seed)
    prompt = PROMPT_QUICK if quick else PROMPT
    shapes = [(1, prompt, 1), *((batch, SHORT_PROMPT, ANSWER) for batch in BATCHES)]
    seconds: dict[tuple[int, int, int], tuple[list[float], list[float]]] = {}
    for _ in range(1 if quick else REPETITIONS):
        for shape in shapes:
            batch, length, answer = shape
            ids = torch.randint(300, theirs.vocabulary, (batch, length), generator=generator)
            lists = seconds.setdefault(shape, ([], []))
            lists[0].append(ours.seconds(ids, answer))
            lists[1].append(theirs.seconds(ids, answer))
    dtype_name = str(taken).removeprefix("torch.")
    rows = marked(
        [
            {**_row(*shape, *map(statistics.median, lists)), "dtype": dtype_name}
            for shape, lists in seconds.items()
        ]
    )
    options = ("--model", model, "--dtype", "float32")
    rows += held_rows("model-speed", quick=quick, seed=seed, options=options)
    return {
        "settings": {"model": model, "dtype": str(taken), "threads": torch.get_num_threads()},
        "rows": rows,
        "headline": _headline(rows),
    }


def _row(batch: int, length: int, answer: int, ours_s: float, theirs_s: float) -> dict[str, Any]:
    tokens = length if answer == 1 else batch * answer
    return {
        "part": "prefill" if answer == 1 else "decode",
        "sequences": batch,
        "tokens": tokens,
        "tokens_per_s": round(tokens / ours_s),
        "transformers_tokens_per_s": round(tokens / theirs_s),
        "x_transformers": round(theirs_s / ours_s, 2),
    }


def _headline(rows: list[dict[str, Any]]) -> Mapping[str, float]:
    headline: dict[str, float] = {}
    for row in rows:
        name = "prefill" if row["part"] == "prefill" else f"decode_{row['sequences']}"
        if row["held"] == rows[0]["held"]:
            headline[f"{name}_tokens_per_s"] = row["tokens_per_s"]
            headline[f"x_{name}"] = row["x_transformers"]
        worst = headline.get(f"worst_{name}", row["x_transformers"])
        headline[f"worst_{name}"] = min(worst, row["x_transformers"])
    return headline


class _Ours:
    def __init__(self, driver: EngineDriver) -> None:
        self._driver = driver

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
        self.vocabulary = int(model.config.vocab_size)

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
