"""Texts that have to be JSON of a schema, or a tool call, beside the same prompts without that.

SmolLM2 (--model NAME) writes greedily, 16 texts at once (8 in all with --quick), each of at most
`TOKENS_MAX` tokens: nested objects, enums, patterns, bounded arrays, references and tool calls.
Each text is read as JSON and checked by the package jsonschema; a tool call is parsed, and its
arguments are checked by the function's own schema.

Then the same prompts are written free, each as many tokens as before. Timed is from the moment all
prompts are in to the last token; what compiles a schema is within. Constrained and free texts go
in turns, group by group. `x_free` is the free texts' time over the constrained ones', so tokens a
second over tokens a second.

`schemas` were tried. `cut` is the share that reached its most tokens, `valid_json` the share that
is valid of the others.
"""

import json
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

from benchmarks.support.engine_driver import EngineDriver
from benchmarks.support.structured_tasks import Task, tasks
from heddle.app.chat.tool_calls import render
from heddle.app.chat.tools import ToolChoice
from heddle.app.models.model_source import model_directory
from heddle.app.models.smollm2 import SMOLLM2
from heddle.core.payloads import DecodePayload, PrefillPayload, Sampling
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import FinishReason, Generated, Prefilled
from heddle.core.system_text import SystemText
from heddle.core.tasks import Optimizations
from heddle.engines.llm.build import LlmSettings, build_engine
from heddle.engines.llm.text.prompt_tokenizer import PromptTokenizer

TOKENS_MAX: Final = 256
TOGETHER: Final = 16
QUICK: Final = 8
KV_BYTES: Final = 1 << 30  # no text loses its KV to another


@dataclass(frozen=True)
class Written:
    """One text, and whether it suits its task."""

    task: Task
    generated: Generated
    is_valid: bool

    @property
    def is_cut(self) -> bool:
        """Whether it reached its most tokens."""
        return self.generated.finish_reason is FinishReason.LENGTH


def run(
    quick: bool, seed: int, model: str = SMOLLM2, tokens_max: int = TOKENS_MAX
) -> dict[str, object]:
    """Write every task's text twice, constrained and free.

    Raises: InputError: there is no such model, or a package is missing.
    """
    directory = model_directory(model)
    settings = LlmSettings(directory, dtype="float32", max_num_seqs=TOGETHER, kv_bytes=KV_BYTES)
    engine = build_engine("llm", 1, settings)
    bench = _Bench(EngineDriver(engine), PromptTokenizer.from_directory(directory), tokens_max)
    asked = tasks()[: QUICK if quick else None]
    groups = [tuple(asked[i : i + TOGETHER]) for i in range(0, len(asked), TOGETHER)]
    written: list[Written] = []
    times = [0.0, 0.0]
    for group in groups:
        texts, constrained_s = bench.constrained(group)
        free_s = bench.free(group, [len(text.token_ids) for text in texts])
        times[0] += constrained_s
        times[1] += free_s
        written += map(_checked, group, texts)
        done = f"{len(written)} of {len(asked)}"
        print(f"{done}: constrained {constrained_s:.1f} s, free {free_s:.1f} s", flush=True)
    engine.close()
    rows = [_row(one) for one in written]
    whole = [one for one in written if not one.is_cut]
    tokens = sum(len(one.generated.token_ids) for one in written)
    return {
        "settings": {"model": model, "dtype": "float32", "together": TOGETHER},
        "rows": rows,
        "headline": {
            "schemas": len(written),
            "valid_json": sum(one.is_valid for one in whole) / max(1, len(whole)),
            "cut": 1.0 - len(whole) / len(written),
            "x_free": times[1] / times[0],
            "tokens": tokens,
        },
    }


class _Bench:
    def __init__(self, driver: EngineDriver, tokenizer: PromptTokenizer, tokens_max: int) -> None:
        self._driver, self._tokenizer, self._tokens_max = driver, tokenizer, tokens_max

    def constrained(self, group: tuple[Task, ...]) -> tuple[list[Generated], float]:
        """Return the texts of some tasks, and how long they took [s]."""
        samplings = [Sampling(self._tokens_max, constraint=task.constraint) for task in group]
        return self._write(group, samplings)

    def free(self, group: tuple[Task, ...], tokens: list[int]) -> float:
        """Write as many tokens behind the same prompts; return how long they took [s]."""
        return self._write(group, [Sampling(count, ignore_eos=True) for count in tokens])[1]

    def _write(
        self, group: tuple[Task, ...], samplings: list[Sampling]
    ) -> tuple[list[Generated], float]:
        driver = self._driver
        prefills = [
            driver.send(
                PrimitiveKind.PREFILLING,
                PrefillPayload(self._tokenizer.encode_prompt(_parts(task))),
                Optimizations.EXACT,  # the second time a prompt is read from the prefix cache
            )
            for task in group
        ]
        handles = self._results(prefills)
        started_s = perf_counter()
        decodes = [
            driver.send(PrimitiveKind.DECODING, DecodePayload(prefill, sampling))
            for prefill, sampling in zip(prefills, samplings, strict=True)
        ]
        results = self._results(decodes)
        seconds = perf_counter() - started_s
        for handle in handles.values():
            assert isinstance(handle, Prefilled)
            driver.release(handle.handle)
        found = [results[task] for task in decodes]
        return [one for one in found if isinstance(one, Generated)], seconds

    def _results(self, wanted: list[int]) -> dict[int, object]:
        found: dict[int, object] = {}
        while len(found) < len(wanted):
            found |= dict(self._driver.step())
        return found


def _parts(task: Task) -> tuple[SystemText | str, ...]:
    if not task.tools:
        return (f"{task.asked} Its JSON schema is {json.dumps(task.schema)}",)
    choice = ToolChoice.of(list(task.tools), task.tool_choice)
    system, user = render([{"role": "user", "content": task.asked}], choice)
    return SystemText(system["content"]), user["content"]


def _checked(task: Task, generated: Generated) -> Written:
    return Written(task, generated, task.is_met_by(generated.text))


def _row(one: Written) -> dict[str, Any]:
    return {
        "schema": one.task.name,
        "tokens": len(one.generated.token_ids),
        "finish": one.generated.finish_reason.value,
        "valid": one.is_valid,
        "text": one.generated.text,
    }
