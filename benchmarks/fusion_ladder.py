"""What each part of FusionRAG takes off the time to the first token. (FusionRAG §5.3.3, figure 18)

Who is compared with whom: one model, the same prompts asked at once, one part more on each rung:

* full: every chunk is computed; the prefix cache holds what all prompts begin with; attention by
  torch, as on all rungs below `kernel`;
* reuse: all chunks' KV is loaded from disk and nothing of them is computed anew;
* selection: 15 % of their tokens are, as the question alone selects;
* kernel: with the compiled attention that an engine takes by itself (Q-Sparse-Attn);
* async: loads run beside the engine's steps; on the rungs below, the engine takes no step until the
  chunks that it asked for are there.

`reuse` may be faster than the rungs above it, and answers worst. What selection and priming are
worth in answers is measured by `heddle bench fusion-quality`. The figure has no rungs `reuse` and
`selection`: it begins with the prefix cache and goes on with what is `kernel` here.

The model's KV has the shape of a 7B's and is really written and read, at 100 MB/s; the rest of it
is narrow (512), so that a chunk takes about twice as long to prefill as to load. Weights are
random, for this is about time. Host memory holds a third of the chunks and is empty at the start;
the page cache is dropped. Prompts of 8 of 48 chunks of 256 tokens, drawn by Zipf's law. The time to
the first token is the mean of a batch; figures are medians of three batches with other prompts, the
rungs in turns. Each engine is new, and computes three other prompts first, as a server has: what is
loaded and what computed is chosen by measured costs. fp32 on the CPU.

Headline, at a batch of 10: how many times faster than `full` each rung is (`x_RUNG`), and the share
of the time that each of the paper's two steps takes off: `kernel_takes_off` of full's (the paper,
on a GPU: 0.733) and `async_takes_off` of kernel's (0.111).
"""

import itertools
import statistics
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import torch
from transformers import LlamaForCausalLM

from benchmarks.support.engine_driver import EngineDriver, Prompt
from benchmarks.support.random_llama import Shape, random_llama
from benchmarks.support.random_prompts import zipf_prompts
from benchmarks.support.stored_chunks import ChunksOnDisk, engine_over
from heddle.core.kv_reuse import FULL_ATTENTION, KvReuse, ReusePolicy
from heddle.core.tasks import Optimizations
from heddle.engines.llm.attention.choice import TORCH
from heddle.kv.chunk_store import ChunkStoreSettings

CONTEXT_TOKENS_MAX: Final = 4096
DISK_BYTES_PER_S: Final = 100e6
AUTO: Final = "auto"
WARM_UP: Final = 3  # whole prompts, by which an engine learns what its tokens cost


@dataclass(frozen=True, slots=True)
class Rung:
    """One more part of FusionRAG than the rung before it."""

    name: str
    reuse: KvReuse
    attention: str = TORCH
    is_blocking: bool = True

    @property
    def mode(self) -> Optimizations:
        """What its requests allow."""
        return Optimizations.APPROX if self.reuse.is_approximate else Optimizations.EXACT


SELECTION: Final = KvReuse(ReusePolicy.FUSIONRAG, always=True)
RUNGS: Final = (
    Rung("full", FULL_ATTENTION),
    Rung("reuse", KvReuse(ReusePolicy.FULL_REUSE, 0.0, always=True)),
    Rung("selection", SELECTION),
    Rung("kernel", SELECTION, AUTO),
    Rung("async", SELECTION, AUTO, is_blocking=False),
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is run; `batches` are how many prompts are asked at once."""

    shape: Shape
    pool: int
    chunks: int
    chunk_tokens: int
    batches: tuple[int, ...]
    repetitions: int
    kv_bytes: int


FULL: Final = Sizes(
    Shape("7B's KV", 28, 512, 4, 512, kv_heads=4, head_dim=128), 48, 8, 256, (1, 10), 3, 4 << 30
)
QUICK: Final = Sizes(Shape("reader", 6, 256, 8, 256), 8, 4, 128, (1, 10), 1, 1 << 28)


def run(quick: bool, seed: int) -> dict[str, object]:
    """Climb the ladder at each batch; the headline is that of the largest."""
    sizes = QUICK if quick else FULL
    rows = _climb(sizes, seed)
    largest = {str(row["rung"]): row for row in rows if row["batch"] == max(sizes.batches)}
    x_full = {name: float(str(row["x_full"])) for name, row in largest.items()}
    return {
        "settings": {
            **asdict(sizes),
            "context_tokens_max": CONTEXT_TOKENS_MAX,
            "disk_bytes_per_s": DISK_BYTES_PER_S,
            "ratio": SELECTION.ratio,
            "threads": torch.get_num_threads(),
        },
        "rows": rows,
        "headline": {
            **{f"x_{name}": x for name, x in x_full.items() if name != RUNGS[0].name},
            "kernel_takes_off": 1 - 1 / x_full["kernel"],
            "async_takes_off": 1 - x_full["kernel"] / x_full["async"],
        },
    }


def _climb(sizes: Sizes, seed: int) -> list[dict[str, object]]:
    model = random_llama(sizes.shape, seed, CONTEXT_TOKENS_MAX)
    drawn = zipf_prompts(sizes.pool, sizes.chunk_tokens, sizes.chunks, seed)
    asked = {
        batch: [list(itertools.islice(drawn, batch)) for _ in range(sizes.repetitions)]
        for batch in sizes.batches
    }
    shown = [prompt for batches in asked.values() for batch in batches for prompt in batch]
    pool_bytes = sizes.pool * sizes.chunk_tokens * sizes.shape.stored_token_bytes
    with tempfile.TemporaryDirectory() as name:
        settings = ChunkStoreSettings(
            pool_bytes // 3, Path(name), 8 * pool_bytes, load_bytes_per_s=DISK_BYTES_PER_S
        )
        stored = ChunksOnDisk.of(model, shown, settings, sizes.kv_bytes)
        full_s = _batch_s(model, stored, RUNGS[0], shown[:1], 0.0, sizes)
        token_s = full_s / sum(len(part.token_ids or ()) for part in shown[0])
        seconds: dict[tuple[int, str], list[float]] = {}
        for batch, batches in asked.items():
            for prompts in batches:
                for rung in RUNGS:
                    took_s = _batch_s(model, stored, rung, prompts, token_s, sizes)
                    seconds.setdefault((batch, rung.name), []).append(took_s)
    return [_row(batch, rung, seconds) for batch, rung in seconds]


def _batch_s(
    model: LlamaForCausalLM,
    stored: ChunksOnDisk,
    rung: Rung,
    prompts: list[Prompt],
    token_s: float,
    sizes: Sizes,
) -> float:
    """Return the mean time to the first tokens of prompts asked at once, by a new engine [s].

    token_s: what computing a token takes, by which a blocking engine chooses what to load [s].
    """
    saved_s = token_s * (1 - float(rung.reuse.ratio))
    with stored.cold(saved_s if rung.is_blocking else None) as store:
        driver = EngineDriver(engine_over(model, store, sizes.kv_bytes, rung.attention))
        for number in range(WARM_UP):
            driver.first_token_s(_of_other_chunks(prompts[0], number), mode=Optimizations.EXACT)
        answered = driver.first_tokens(prompts, rung.reuse, rung.mode)
        return statistics.mean(first_s for first_s, _ in answered)


def _of_other_chunks(prompt: Prompt, number: int) -> Prompt:
    """Return a prompt of the same lengths with the same prefix, whose chunks are new.

    Each number gives another one.
    """
    prefix, *others = prompt
    return prefix, *(replace(part, token_ids=_turned(part.token_ids, number)) for part in others)


def _turned(token_ids: tuple[int, ...] | None, number: int) -> tuple[int, ...]:
    """Return the same tokens backwards, beginning elsewhere."""
    backwards = (token_ids or ())[::-1]
    return backwards[number:] + backwards[:number]


def _row(batch: int, rung: str, seconds: dict[tuple[int, str], list[float]]) -> dict[str, object]:
    taken, first = seconds[batch, rung], seconds[batch, RUNGS[0].name]
    gains = [full_s / took_s for full_s, took_s in zip(first, taken, strict=True)]
    row: dict[str, object] = {
        "batch": batch,
        "rung": rung,
        "ttft_s": round(statistics.median(taken), 4),
        "x_full": round(statistics.median(gains), 3),
        "x_full_range": [round(min(gains), 3), round(max(gains), 3)],
    }
    print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    return row
