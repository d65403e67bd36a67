"""Passages a second of the extractor on one core, beside transformers on the same weights.

Questions with five passages each, Wikipedia's where the developer data are there, else generated:

- heddle: `ReadingEngine` in this process, a task for each question, all of them waiting.
- transformers: `AutoModelForQuestionAnswering` with the same weights, dtype, tokens and search for
  spans; rows sorted by length, in batches of 1, 8 and 32.

CPU time of this process with one thread, in turns, medians. `x_transformers` is heddle over the
best batch size, in the dtype that `auto` stands for on this machine; rows show float32, too. Both
sides quote the same, but for ties within rounding: at least 95 of 100.

`cpu_ms_a_passage` is what a row of 200 tokens takes, question included, in float32 with all
libraries held to AVX2. A process of its own measures it.
"""

import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForQuestionAnswering

from benchmarks.support.data import rows as data_rows
from benchmarks.support.engine_driver import EngineDriver
from heddle.app.models.extractor_source import open_extractor
from heddle.core.errors import InputError, InternalError
from heddle.core.instruction_sets import AVX2, held_environment
from heddle.core.payloads import ExtractPayload, ReadingText
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Extracted
from heddle.encoder.device import torch_dtype
from heddle.engines.reading.build import ReadingSettings, build_engine
from heddle.engines.reading.reading_directory import ReaderKind, ReadingDirectory
from heddle.engines.reading.transformers_reader import TransformersReader
from heddle.engines.reading.whole_words import whole_words
from heddle.engines.reading.worker import TransformerReadingWorker
from heddle.hosts.library_words import check_libraries

PASSAGES: Final = 5  # of a question
CHARS_MAX: Final = 1_200  # of a passage, which then is one row
ROW_TOKENS: Final = 200
BATCHES: Final = (1, 8, 32)
SAME_SHARE_MIN: Final = 0.95
CPU: Final = torch.device("cpu")
Asked = tuple[str, tuple[ReadingText, ...]]
Spans = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is read."""

    seed: int
    questions: int
    repetitions: int
    held_passages: int


def run(quick: bool, seed: int, model: str | None = None) -> dict[str, object]:
    """Run all in turns; returns settings, a row for each contender and dtype, the headline."""
    settings = Settings(seed, 4, 2, 10) if quick else Settings(seed, 20, 7, 40)
    torch.set_num_threads(1)
    directory = open_extractor(model or "extract")
    asked, source = questions(settings.seed, settings.questions)
    auto = str(torch_dtype("auto", CPU)).removeprefix("torch.")
    rows: list[dict[str, object]] = []
    ratios: dict[str, float] = {}
    for dtype in dict.fromkeys((auto, "float32")):
        found = _in_turns(directory, dtype, asked, settings.repetitions)
        rows += [row | {"dtype": dtype} for row in found]
        ratios[dtype] = _ratio(found)
        for row in found:
            print(f"{dtype:<9} {row['contender']:<16} {row['ms_a_passage']:6.2f} ms a passage")
    held = _held(directory, settings)
    print(f"held to AVX2, 200 tokens: {held['ms_a_passage']:.1f} ms a passage")
    headline = {"x_transformers": ratios[auto], "cpu_ms_a_passage": held["ms_a_passage"]}
    return {
        "settings": {**asdict(settings), "passages": source, "auto": auto},
        "rows": [*rows, held],
        "headline": headline,
    }


def questions(seed: int, count: int) -> tuple[list[Asked], str]:
    """Return questions with their passages, and where they are from."""
    rng = random.Random(seed)
    try:
        corpus = {
            row["id"]: ReadingText(row["title"], row["text"])
            for row in data_rows("wiki_corpus")
            if len(row["text"]) <= CHARS_MAX
        }
        single = [row for row in data_rows("wiki_single") if row["gold"][0] in corpus]
    except InputError:
        return [_generated(rng) for _ in range(count)], "generated"
    others = list(corpus.values())
    asked = [
        (row["question"], (corpus[row["gold"][0]], *rng.sample(others, PASSAGES - 1)))
        for row in rng.sample(single, count)
    ]
    return asked, "wiki_corpus"


def _generated(rng: random.Random) -> Asked:
    def passage() -> ReadingText:
        year, words = (
            rng.randint(1000, 2000),
            ["harbour", "river", "bridge", "market", "old", "new"],
        )
        text = " ".join(rng.choices(words, k=rng.randint(40, 200)))
        return ReadingText("Town", f"The {text}. It opened in {year}. The {text}.")

    return "When did the harbour open?", tuple(passage() for _ in range(PASSAGES))


def _in_turns(
    directory: ReadingDirectory, dtype: str, asked: Sequence[Asked], repetitions: int
) -> list[dict[str, object]]:
    """Read with all contenders in turns; return a row for each."""
    ways: dict[str, Callable[[Sequence[Asked]], Spans]] = {"heddle": _Heddle(directory, dtype)}
    transformers = _Transformers(directory, dtype)
    for rows in BATCHES:
        ways[f"transformers {rows}"] = transformers.in_batches(rows)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    spans: dict[str, Spans] = {}
    for repetition in range(repetitions + 1):
        for name, read in ways.items():
            started_s = time.process_time()
            spans[name] = read(asked)
            if repetition:  # the first one warms up
                seconds[name].append(time.process_time() - started_s)
    passages = sum(len(texts) for _, texts in asked)
    rows_found: list[dict[str, object]] = []
    for name, found_s in seconds.items():
        pairs = zip(spans[name], spans["heddle"], strict=True)
        same = sum(theirs == ours for theirs, ours in pairs) / passages
        if same < SAME_SHARE_MIN:
            raise InternalError(f"{name} quotes as heddle does in {same:.0%} of the passages alone")
        times_ms = [1e3 * s / passages for s in found_s]
        spread = {"fastest": min(times_ms), "slowest": max(times_ms), "same_quotes": same}
        rows_found.append(
            {"contender": name, "ms_a_passage": statistics.median(times_ms), **spread}
        )
    return rows_found


def _ratio(rows: Sequence[dict[str, object]]) -> float:
    """Return the best other's median time over ours."""
    times = {str(row["contender"]): float(str(row["ms_a_passage"])) for row in rows}
    return min(ms for name, ms in times.items() if name != "heddle") / times["heddle"]


class _Heddle:
    def __init__(self, directory: ReadingDirectory, dtype: str) -> None:
        settings = ReadingSettings(str(directory.path), dtype, "cpu")
        self._driver = EngineDriver(build_engine("reading", 1, settings))

    def __call__(self, asked: Sequence[Asked]) -> Spans:
        tasks = [
            self._driver.send(PrimitiveKind.EXTRACTING, ExtractPayload(question, texts, len(texts)))
            for question, texts in asked
        ]
        results: dict[int, Extracted] = {}
        while len(results) < len(tasks):
            for task, result in self._driver.step():
                assert isinstance(result, Extracted), result
                results[task] = result
        spans: Spans = []
        for task in tasks:
            quotes = sorted(results[task].quotes, key=lambda quote: quote.passage)
            spans += [(quote.start, quote.end) for quote in quotes]
        return spans


class _Transformers:
    """transformers' model; tokens, windows and the search for spans are the extractor's own."""

    def __init__(self, directory: ReadingDirectory, dtype: str) -> None:
        self._cutter = TransformerReadingWorker.load(directory, dtype, "cpu", 1)
        config = AutoConfig.from_pretrained(directory.encoder)
        model = AutoModelForQuestionAnswering.from_config(config)
        weights = load_file(directory.encoder / "model.safetensors")
        for file in directory.path.glob("delta-*.safetensors"):
            weights |= load_file(file)
        named = {f"bert.{name}": w.float() for name, w in weights.items() if "." in name}
        for part in ("weight", "bias"):
            # Its answerability moves all spans of a window alike, so the best one stays.
            named[f"qa_outputs.{part}"] = named.pop(f"bert.head.{part}")[:2]
        lacking = model.load_state_dict(named, strict=False).missing_keys
        if lacking:
            raise InternalError(f"transformers' model lacks {lacking[:3]}")
        self._reader = TransformersReader(
            model.eval().to(torch_dtype(dtype, CPU)), ReaderKind.SPANS, directory.sizes.span_max
        )

    def in_batches(self, size: int) -> Callable[[Sequence[Asked]], Spans]:
        """Return a way to read in batches of `size` rows."""

        def read(asked: Sequence[Asked]) -> Spans:
            cut = [
                (text.text, done.windows[0])
                for question, texts in asked
                for text, done in zip(texts, self._cutter.cut(question, texts), strict=True)
            ]
            order = sorted(range(len(cut)), key=lambda place: len(cut[place][1].ids))
            spans: Spans = [(0, 0)] * len(cut)
            for at in range(0, len(order), size):
                places = order[at : at + size]
                found = self._reader.read([cut[place][1] for place in places])
                for place, finding in zip(places, found, strict=True):
                    text, window = cut[place]
                    start = window.offsets[finding.first][0]
                    spans[place] = whole_words(text, start, window.offsets[finding.last][1])
            return spans

        return read


def _held(directory: ReadingDirectory, settings: Settings) -> dict[str, object]:
    """Return what rows of 200 tokens take in a process that is held to AVX2."""
    command = [sys.executable, "-m", "benchmarks.reading", str(directory.path)]
    command += [str(settings.seed), str(settings.held_passages), str(settings.repetitions)]
    environment = held_environment(AVX2.name)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InternalError(f"the process held to AVX2 failed: {done.stderr[-500:]}")
    row: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return row


def held_row(model: str, seed: int, passages: int, repetitions: int) -> dict[str, object]:
    """Read rows of 200 tokens in this process; return what each took."""
    directory = ReadingDirectory.open(model)
    worker = TransformerReadingWorker.load(directory, "float32", "cpu", 1)
    asked, _ = questions(seed, passages)
    times_ms = []
    for repetition in range(repetitions + 1):
        started_s = time.process_time()
        for question, texts in asked:
            long = ReadingText(texts[0].title, " ".join(text.text for text in texts))
            [done] = worker.cut(question, [long])
            window = done.windows[0]
            ids = (*window.ids[: ROW_TOKENS - 1], window.ids[-1])
            offsets = window.offsets[: ROW_TOKENS - 1 - window.first]
            worker.read([replace(window, ids=ids, offsets=offsets)])
        if repetition:
            times_ms.append(1e3 * (time.process_time() - started_s) / len(asked))
    check_libraries()
    return {
        "contender": "heddle, held to AVX2",
        "dtype": "float32",
        "row_tokens": ROW_TOKENS,
        "isa": torch.backends.cpu.get_cpu_capability(),
        "ms_a_passage": statistics.median(times_ms),
        "fastest": min(times_ms),
        "slowest": max(times_ms),
    }


if __name__ == "__main__":
    path, *numbers = sys.argv[1:]
    print(json.dumps(held_row(path, *map(int, numbers))))
