"""Time to the first token of prompts whose chunks' KV is stored, beside full attention.

Who is compared with whom: the same engine with the same weights, full attention over the whole
prompt (one causal SDPA call a layer, no prefix cache) against FusionRAG's selection at several
ratios. Everything is counted: looking chunks up, copying and turning their keys, the question's
pass that selects, computing what was selected. Tier `disk`: host memory is empty and every chunk
is read from its file first (the page cache is warm). Random weights: this is about time, not about
quality. fp32 on the CPU, bfloat16 on CUDA.

limit = T / (r T + 2 Q): what computing the selected tokens and the question twice would cost if
time went with the number of tokens. The headline is the worse of the two shapes.
"""

import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.llm_parity import NoText
from heddle.core.commands import Admit, Release
from heddle.core.frames import Done, Failed, Progress
from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.core.payloads import DecodePayload, PrefillPayload, Sampling, Segment, SegmentRole
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Prefilled
from heddle.core.tasks import Identity, Optimizations, Task
from heddle.engines.llm.build import LlmSettings, assemble
from heddle.engines.llm.engine import LlmEngine

CHUNK_TOKENS = 256
PREFIX_TOKENS = 32
QUESTION_TOKENS = 64
VOCABULARY = 9216
RATIOS = (0.0, 0.05, 0.15, 0.30)
FULL = "full"


@dataclass(frozen=True, slots=True)
class Shape:
    """A Llama's sizes."""

    name: str
    layers: int
    hidden: int
    heads: int
    intermediate: int


SHAPES = (Shape("reader", 6, 256, 8, 256), Shape("8x512", 8, 512, 8, 1376))


def run(quick: bool, seed: int) -> dict[str, object]:
    """Measure every shape, length and ratio in turns; headline: how many times faster."""
    lengths = (1024,) if quick else (2048, 8192)
    repetitions = 2 if quick else 5
    rows: list[dict[str, object]] = []
    for shape in SHAPES[:1] if quick else SHAPES:
        model = _model(shape, seed)
        for length in lengths:
            rows += _measure(model, shape, length, repetitions, seed)
    return {
        "settings": {
            "chunk_tokens": CHUNK_TOKENS,
            "prefix_tokens": PREFIX_TOKENS,
            "question_tokens": QUESTION_TOKENS,
            "repetitions": repetitions,
            "dtype": str(model.dtype),
            "threads": torch.get_num_threads(),
        },
        "rows": rows,
        "headline": _headline(rows, lengths),
    }


def _headline(rows: list[dict[str, object]], lengths: tuple[int, ...]) -> dict[str, float]:
    def worst(length: int, ratio: float, column: str) -> float:
        return min(
            float(str(row[column]))
            for row in rows
            if (row["tokens"], row["ratio"], row["tier"]) == (length, ratio, "host")
        )

    found = {
        f"x_{length // 1024}k_r{round(100 * ratio)}": worst(length, ratio, "x_full")
        for length in lengths
        for ratio in (0.15, 0.0)
    }
    longest = lengths[-1]
    name = f"share_of_limit_{longest // 1024}k_r15"
    return {**found, name: worst(longest, 0.15, "share_of_limit")}


def _measure(
    model: LlamaForCausalLM, shape: Shape, length: int, repetitions: int, seed: int
) -> list[dict[str, object]]:
    prompt = _Prompt.drawn(length, seed)
    seconds: dict[tuple[object, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, _engine(model, Path(folder)) as engine:
        asker = _Asker(engine)
        for chunk in prompt.chunks:
            asker.ask(_Prompt(prompt.prefix, (chunk,), prompt.question), 0.0)
        for _ in range(repetitions):
            seconds.setdefault((FULL, "host"), []).append(asker.ask(prompt, None))
            for ratio in RATIOS:
                seconds.setdefault((ratio, "host"), []).append(asker.ask(prompt, ratio))
        engine.close()
        for _ in range(repetitions):
            # A new engine knows the files only.
            with _engine(model, Path(folder)) as cold:
                seconds.setdefault((0.15, "disk"), []).append(_Asker(cold).ask(prompt, 0.15))
    full_s = statistics.median(seconds[FULL, "host"])
    rows: list[dict[str, object]] = []
    for (ratio, tier), taken in seconds.items():
        row: dict[str, object] = {
            "shape": shape.name,
            "tokens": length,
            "ratio": ratio,
            "tier": tier,
            "ttft_s": round(statistics.median(taken), 4),
            "x_full": round(full_s / statistics.median(taken), 3),
        }
        if isinstance(ratio, float):
            limit = length / (ratio * length + 2 * QUESTION_TOKENS)
            row["share_of_limit"] = round(float(str(row["x_full"])) / limit, 3)
        rows.append(row)
        print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    return rows


@dataclass(frozen=True, slots=True)
class _Prompt:
    prefix: tuple[int, ...]
    chunks: tuple[tuple[int, ...], ...]
    question: tuple[int, ...]

    @classmethod
    def drawn(cls, length: int, seed: int) -> "_Prompt":
        """Draw a prompt of `length` tokens of chunks."""
        generator = torch.Generator().manual_seed(seed)

        def tokens(count: int) -> tuple[int, ...]:
            return tuple(torch.randint(5, VOCABULARY, (count,), generator=generator).tolist())

        chunks = tuple(tokens(CHUNK_TOKENS) for _ in range(length // CHUNK_TOKENS))
        return cls(tokens(PREFIX_TOKENS), chunks, tokens(QUESTION_TOKENS))

    def segments(self) -> tuple[Segment, ...]:
        chunks = (Segment(chunk, SegmentRole.CHUNK) for chunk in self.chunks)
        return (Segment(self.prefix), *chunks, Segment(self.question))


@contextmanager
def _engine(model: LlamaForCausalLM, folder: Path) -> Iterator[LlmEngine]:
    tokens_max = model.config.max_position_embeddings
    settings = LlmSettings(
        Path("in memory"),
        max_num_batched_tokens=tokens_max,
        kv_bytes=2 << 30,
        context_tokens_max=tokens_max,
        chunk_kv_bytes=2 << 30,
        chunk_kv_dir=folder,
        chunk_kv_disk_bytes=2 << 30,
    )
    engine = assemble("llm", 1, settings, model, "bench", NoText())
    try:
        yield engine
    finally:
        engine.close()


class _Asker:
    """Sends prompts to an engine one at a time."""

    def __init__(self, engine: LlmEngine) -> None:
        self._engine = engine
        self._next = 0
        self._woken = threading.Event()
        engine.subscribe(self._woken.set)

    def ask(self, prompt: _Prompt, ratio: float | None) -> float:
        """Return the seconds to the first token; ratio None: full attention."""
        prefill, self._next = self._next, self._next + 2
        who = Identity(prefill, "bench")
        reuse = KvReuse() if ratio is None else KvReuse(ReusePolicy.FUSIONRAG, ratio)
        mode = Optimizations.OFF if ratio is None else Optimizations.APPROX
        payloads = (
            (PrimitiveKind.PREFILLING, PrefillPayload(prompt.segments(), reuse=reuse)),
            (PrimitiveKind.DECODING, DecodePayload(prefill, Sampling(1, ignore_eos=True))),
        )
        started_s = time.perf_counter()
        for offset, (kind, payload) in enumerate(payloads):
            task = Task(prefill + offset, kind, who, payload, optimizations=mode)
            self._engine.apply(Admit(task, 1))
        first_s = 0.0
        handle = None
        while handle is None or not first_s:
            self._woken.clear()
            if not self._engine.has_work:
                self._woken.wait()  # for chunks from disk
            for event in self._engine.step(0.0, float("inf")).events:
                assert not isinstance(event, Failed), event
                if isinstance(event, Progress):
                    first_s = time.perf_counter() - started_s
                if isinstance(event, Done) and isinstance(event.result, Prefilled):
                    handle = event.result.handle
        self._engine.apply(Release(handle))
        return first_s


def _model(shape: Shape, seed: int) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        intermediate_size=shape.intermediate,
        vocab_size=VOCABULARY,
        max_position_embeddings=8448,
        eos_token_id=None,
        attn_implementation="sdpa",
    )
    model = LlamaForCausalLM(config).eval()
    return model.to("cuda", torch.bfloat16) if torch.cuda.is_available() else model
