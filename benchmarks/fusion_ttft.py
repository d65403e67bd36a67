"""Time to the first token of prompts whose chunks' KV is stored, beside full attention.

Who is compared with whom: the same weights, full attention over the whole prompt (no prefix cache)
against FusionRAG's selection at several ratios. Full attention goes two ways: by torch, one causal
SDPA call a layer from 2k tokens on (`full`; times over it: x_full), and by what the engine takes by
itself (`full, own`; times over it: x_own), on a CPU with a C compiler Heddle's own kernel (ADR 23),
which computes the prompts that reuse chunks as well. Everything is counted: looking chunks up,
copying and turning their keys, the question's pass that selects, computing what was selected.
Random weights: this is about time, not about quality. bfloat16 on CUDA; on a CPU fp32, and bfloat16
where it multiplies that in hardware, or the one that --dtype names. Where the CPU has more than
AVX2, fp32 is run again held to it, with the chunks' KV in host memory.

--tier host, --tier disk (default: both, on CUDA host): where the chunks' KV lies. On `disk` a new
engine knows their files only, and the system's page cache is dropped before each prompt. (fig. 19)

question: the tokens it sees when it selects. alone: only its own. ahead: only its own, and it ran
while its passages were looked for, as a server does where retrieval takes longer than `asking_s`;
the clock starts when the passages are there. with_context: the reused chunks.

--device cpu (the default): two small shapes; the headline is the worse of the two over
torch's causal SDPA, its question alone and not ahead; beside it `..._ahead`, and `own_...` over the
engine's own full attention, all of the first number type. `worst_...` is the smallest of all
number types and instructions, `full_attention_x_torch` the longest time of the engine's own full
attention over torch's, `tokens_shared` the fewest tokens that a prompt read from shared pages.
--device cuda: the shape of a 7B (28 layers of 3584, 28 heads, 4 of them with KV), 27k tokens, all
of their KV in pinned host memory.

Prompts are asked in turns, the shorter ones as many times as often as the longest are longer.

limit = T / (r T + 2 Q): what computing the selected tokens and the question twice would cost if
time went with the number of tokens; ahead, and at ratio 0, T / (r T + Q), for the question is
computed once then.
"""

import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Final

import torch
from transformers import LlamaForCausalLM

from benchmarks.llm_parity import NoText
from benchmarks.support.engine_driver import EngineDriver, Prompt
from benchmarks.support.held_run import held_rows, marked
from benchmarks.support.page_cache import drop_page_cache
from benchmarks.support.random_llama import Shape, random_llama, random_tokens
from heddle.core.errors import EngineError, InputError
from heddle.core.instruction_sets import multiplies_bfloat16
from heddle.core.kv_reuse import KvReuse, QuestionPass, ReusePolicy
from heddle.core.payloads import AskPayload, Segment, SegmentRole
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Asked
from heddle.core.tasks import Optimizations
from heddle.engines.llm.attention.choice import TORCH
from heddle.engines.llm.build import LlmSettings, assemble
from heddle.engines.llm.engine import LlmEngine

CHUNK_TOKENS: Final = 256
PREFIX_TOKENS: Final = 32
QUESTION_TOKENS: Final = 64
FULL: Final = "full"
FULL_OWN: Final = "full, own"
ALONE: Final = QuestionPass.ALONE.value
WITH_CONTEXT: Final = QuestionPass.WITH_CONTEXT.value
AHEAD: Final = "ahead"
DTYPES: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16}
HELD_DTYPE: Final = "float32"
HOST: Final = "host"
DISK: Final = "disk"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured on a device, and how much memory it takes there and beside it.

    `lengths` [tokens] are the prompts' chunks together; `repetitions` are the longest one's, and
    those of each on disk.
    """

    shapes: tuple[Shape, ...]
    lengths: tuple[int, ...]
    ratios: tuple[float, ...]
    repetitions: int
    tiers: tuple[str, ...]
    kv_bytes: int
    chunk_kv_bytes: int

    @property
    def context_tokens_max(self) -> int:
        """What the longest prompt and its answer take."""
        return max(self.lengths) + 2 * CHUNK_TOKENS


_RATIOS = (0.0, 0.05, 0.15, 0.30)
SMALL = (Shape("reader", 6, 256, 8, 256), Shape("8x512", 8, 512, 8, 1376))
PLANS: Final = {
    "cpu": Plan(SMALL, (2048, 8192), _RATIOS, 5, (HOST, DISK), 2 << 30, 2 << 30),
    "cuda": Plan(
        (Shape("7B", 28, 3584, 28, 18944, kv_heads=4),),
        (105 * CHUNK_TOKENS,),
        (0.0, 0.15),
        5,
        (HOST,),
        4 << 30,
        4 << 30,
    ),
}
QUICK: Final = {
    "cpu": Plan(SMALL[:1], (1024,), _RATIOS, 2, (HOST, DISK), 2 << 30, 2 << 30),
    "cuda": Plan(SMALL[1:], (8192,), (0.0, 0.15), 2, (HOST,), 2 << 30, 2 << 30),
}


def run(
    quick: bool,
    seed: int,
    *,
    device: str = "cpu",
    tier: str | None = None,
    dtype: str | None = None,
) -> dict[str, object]:
    """Measure every shape, length and ratio in turns; headline: how many times faster.

    Raises: InputError: the device, tier or dtype isn't one of these, or torch finds no such device.
    """
    if device not in PLANS:
        raise InputError(f"device {device!r} is unknown; use one of {', '.join(PLANS)}")
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("torch finds no CUDA device here; run this on a machine with a GPU")
    if tier not in (None, HOST, DISK):
        raise InputError(
            f"tier {tier!r} is unknown; use {HOST} or {DISK}, or leave it out for both"
        )
    if dtype not in (None, *DTYPES):
        raise InputError(f"dtype {dtype!r} is unknown; use {' or '.join(DTYPES)}")
    plan = (QUICK if quick else PLANS)[device]
    if tier is not None:
        plan = replace(plan, tiers=(tier,))
    dtypes = _dtypes(device) if dtype is None else (dtype,)
    rows = measured(plan, device, dtypes, seed)
    if HELD_DTYPE in dtypes and HOST in plan.tiers:
        options = ("--dtype", HELD_DTYPE, "--tier", HOST)
        rows += held_rows("fusion-ttft", quick=quick, seed=seed, options=options)
    return result(plan, device, dtypes, rows)


def measured(plan: Plan, device: str, dtypes: Sequence[str], seed: int) -> list[dict[str, object]]:
    """Return the rows of a plan, by number type, shape and length."""
    rows: list[dict[str, object]] = []
    for name in dtypes:
        for shape in plan.shapes:
            model = random_llama(shape, seed, plan.context_tokens_max, device, DTYPES[name])
            for length in plan.lengths:
                rows += marked(_measure(model, plan, shape, length, seed))
    return rows


def result(
    plan: Plan, device: str, dtypes: Sequence[str], rows: list[dict[str, object]]
) -> dict[str, object]:
    """Return settings, rows and headline of a plan that was measured."""
    return {
        "settings": {
            "chunk_tokens": CHUNK_TOKENS,
            "prefix_tokens": PREFIX_TOKENS,
            "question_tokens": QUESTION_TOKENS,
            "repetitions": plan.repetitions,
            "dtypes": list(dtypes),
            "device": device,
            "tiers": plan.tiers,
            "threads": torch.get_num_threads(),
        },
        "rows": rows,
        "headline": _headline(rows, plan),
    }


def _dtypes(device: str) -> tuple[str, ...]:
    """Return the number types that a device computes in hardware; the first is the headline's."""
    if device == "cuda":
        return ("bfloat16",)
    return ("float32", "bfloat16") if multiplies_bfloat16() else ("float32",)


def _headline(rows: list[dict[str, object]], plan: Plan) -> dict[str, float]:
    """Return the worst shape's figures; those of chunks on disk are called so."""
    first = rows[0]["dtype"], rows[0]["held"]
    firsts = [row for row in rows if (row["dtype"], row["held"]) == first]

    def worst(
        length: int,
        ratio: float | str,
        column: str,
        question: str = ALONE,
        tier: str = HOST,
        among: list[dict[str, object]] = firsts,
    ) -> float:
        wanted = (length, ratio, tier, question)
        return min(
            float(str(row[column]))
            for row in among
            if (row["tokens"], row["ratio"], row["tier"], row["question"]) == wanted
        )

    found: dict[str, float] = {}
    points = [
        (f"{_thousands(length)}k_r{round(100 * ratio)}", length, ratio)
        for length in plan.lengths
        for ratio in (0.15, 0.0)
    ]
    if HOST in plan.tiers:
        found |= {f"x_{name}": worst(*point, "x_full") for name, *point in points}
        found |= {f"own_{name}": worst(*point, "x_own") for name, *point in points}
        for name, length, ratio in points:
            if ratio:
                found[f"x_{name}_ahead"] = worst(length, ratio, "x_full", AHEAD)
        name, length, ratio = points[-2]
        found[f"share_of_limit_{name}"] = worst(length, ratio, "share_of_limit")
        for name, length, ratio in points:
            found[f"worst_{name}"] = worst(length, ratio, "x_full", among=rows)
        own = (worst(length, FULL_OWN, "x_full", among=rows) for length in plan.lengths)
        found["full_attention_x_torch"] = round(1 / min(own), 3)
        reusing = (row for row in rows if row["tier"] == HOST and isinstance(row["ratio"], float))
        found["tokens_shared"] = min(int(str(row["tokens_shared"])) for row in reusing)
    if DISK in plan.tiers:
        found |= {f"disk_{name}": worst(*point, "x_full", tier=DISK) for name, *point in points}
    return found


def _thousands(tokens: int) -> int:
    return round(tokens / 1000)


def _measure(
    model: LlamaForCausalLM, plan: Plan, shape: Shape, length: int, seed: int
) -> list[dict[str, object]]:
    prefix, *chunks, question = prompt = _drawn(length, seed)
    asked = Segment(random_tokens(QUESTION_TOKENS, seed, 3))
    ways = {
        ALONE: (prompt, QuestionPass.ALONE),
        AHEAD: ((prefix, *chunks, asked), QuestionPass.ALONE),
        WITH_CONTEXT: (prompt, QuestionPass.WITH_CONTEXT),
    }
    seconds: defaultdict[tuple[float | str, str, str], list[float]] = defaultdict(list)
    tokens_shared: dict[tuple[float | str, str, str], int] = {}
    repetitions = plan.repetitions * max(plan.lengths) // length
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) if DISK in plan.tiers else None
        with _engine(model, plan, folder) as engine, _engine(model, plan, None, TORCH) as torchs:
            driver, causal = EngineDriver(engine), EngineDriver(torchs)
            for chunk in chunks:
                _ask(driver, (prefix, chunk, question), 0.0)
            asking_s = _ask_ahead(driver, asked)
            for _ in range(repetitions):
                seconds[FULL, HOST, ALONE].append(causal.first_token_s(prompt))
                seconds[FULL_OWN, HOST, ALONE].append(driver.first_token_s(prompt))
                for share in plan.ratios if HOST in plan.tiers else ():
                    for way, (shown, sees) in ways.items():
                        if share or way == ALONE:  # at 0 no question selects
                            key = share, HOST, way
                            taken_s, tokens_shared[key] = _ask(driver, shown, share, sees)
                            seconds[key].append(taken_s)
        for _ in range(plan.repetitions if folder is not None else 0):
            for share in plan.ratios:
                drop_page_cache(path for path in Path(name).rglob("*") if path.is_file())
                # A new engine knows the files only.
                with _engine(model, plan, folder) as cold:
                    key = share, DISK, ALONE
                    taken_s, tokens_shared[key] = _ask(EngineDriver(cold), prompt, share)
                    seconds[key].append(taken_s)
    full_s, own_s = (statistics.median(seconds[f, HOST, ALONE]) for f in (FULL, FULL_OWN))
    rows: list[dict[str, object]] = []
    for (ratio, tier, way), taken in seconds.items():
        row: dict[str, object] = {
            "dtype": str(model.dtype).removeprefix("torch."),
            "shape": shape.name,
            "tokens": length,
            "ratio": ratio,
            "tier": tier,
            "question": way,
            "ttft_s": round(statistics.median(taken), 4),
            "x_full": round(full_s / statistics.median(taken), 3),
            "x_own": round(own_s / statistics.median(taken), 3),
        }
        if isinstance(ratio, float):
            passes = 2 if ratio and way != AHEAD else 1
            limit = length / (ratio * length + passes * QUESTION_TOKENS)
            row["share_of_limit"] = round(float(str(row["x_full"])) / limit, 3)
            row["tokens_shared"] = tokens_shared[ratio, tier, way]
        if way == AHEAD:
            row["asking_s"] = round(asking_s, 4)
        rows.append(row)
        print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    return rows


def _ask_ahead(driver: EngineDriver, question: Segment) -> float:
    """Have a question run by itself; return the seconds that takes."""
    started_s = perf_counter()
    payload = AskPayload(question.token_ids or ())
    asked = driver.result_of(driver.send(PrimitiveKind.ASKING, payload))
    assert isinstance(asked, Asked), f"a question was answered with {asked}"
    if asked.problem:
        raise EngineError(asked.problem, engine="llm", request_ids=())
    return perf_counter() - started_s


def _ask(
    driver: EngineDriver,
    prompt: Prompt,
    ratio: float,
    question: QuestionPass = QuestionPass.ALONE,
) -> tuple[float, int]:
    """Return the seconds to the first token, and the tokens read from pages that are shared."""
    reuse = KvReuse(ReusePolicy.FUSIONRAG, ratio, question=question, always=True)
    taken_s, prefilled = driver.first_token(prompt, reuse, Optimizations.APPROX)
    assert prefilled.fused is not None, "it reuses chunks"
    return taken_s, prefilled.fused.tokens_shared


def _drawn(length: int, seed: int) -> Prompt:
    """Draw a prompt of `length` tokens of chunks."""
    chunks = (random_tokens(CHUNK_TOKENS, seed, 2, i) for i in range(length // CHUNK_TOKENS))
    return (
        Segment(random_tokens(PREFIX_TOKENS, seed, 0)),
        *(Segment(chunk, SegmentRole.CHUNK) for chunk in chunks),
        Segment(random_tokens(QUESTION_TOKENS, seed, 1)),
    )


@contextmanager
def _engine(
    model: LlamaForCausalLM, plan: Plan, folder: Path | None, attention: str = "auto"
) -> Iterator[LlmEngine]:
    tokens_max = model.config.max_position_embeddings
    settings = LlmSettings(
        Path("in memory"),
        attention=attention,
        max_num_batched_tokens=tokens_max,
        kv_bytes=plan.kv_bytes,
        context_tokens_max=tokens_max,
        chunk_kv_bytes=plan.chunk_kv_bytes,
        chunk_kv_dir=folder,
        chunk_kv_disk_bytes=0 if folder is None else plan.chunk_kv_bytes,
    )
    engine = assemble("llm", 1, settings, model, "bench", NoText())
    try:
        yield engine
    finally:
        engine.close()
