"""`sparse-attention` and `fusion-ttft` as parts of a day with a GPU."""

from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from benchmarks import fusion_ttft, sparse_attention
from benchmarks.fusion_ttft import CHUNK_TOKENS, HOST, Plan
from benchmarks.gpu.place import Note, Place
from benchmarks.gpu.step_curves import SEVEN_B, TINY
from heddle.engines.llm import build
from heddle.engines.llm.attention.choice import TRITON, choose_attention

LONG_CHUNKS, SHORT_CHUNKS = 105, 32  # 27k and 8k tokens
REPETITIONS = 3


def sparse(place: Place, note: Note) -> dict[str, float]:
    """Run `sparse-attention`."""
    device = place.sized("cuda", "interpret")
    found = sparse_attention.run(place.is_interpreted, 0, device=device)
    return _headline(found, note)


def ttft_short(place: Place, note: Note) -> dict[str, float]:
    """Run `fusion-ttft` over 8k tokens by a model of 7B's shape."""
    return _ttft(place, note, SHORT_CHUNKS)


def ttft_long(place: Place, note: Note) -> dict[str, float]:
    """Run `fusion-ttft` over 27k tokens by a model of 7B's shape."""
    return _ttft(place, note, LONG_CHUNKS)


def _ttft(place: Place, note: Note, chunks: int) -> dict[str, float]:
    """Run `fusion-ttft`; interpreted, its engine on the CPU takes the Triton kernel as well."""
    memory = place.sized(4 << 30, 32 << 20)
    plan = Plan(
        place.sized((SEVEN_B,), (TINY,)),
        (place.sized(chunks, 1) * CHUNK_TOKENS,),
        (0.0, 0.15),
        place.sized(REPETITIONS, 1),
        (HOST,),
        memory,
        memory,
    )
    device, dtypes = place.device.type, (place.sized("bfloat16", "float32"),)
    with ExitStack() as changed:
        if place.is_interpreted:
            changed.enter_context(patch.object(build, "choose_attention", _kernel_by_default))
        rows = fusion_ttft.measured(plan, device, dtypes, 0)
    return _headline(fusion_ttft.result(plan, device, dtypes, rows), note)


def _kernel_by_default(wanted: str, *, on_gpu: bool, gpu_problem: str = "") -> str:
    wanted = TRITON if wanted == "auto" else wanted
    return choose_attention(wanted, on_gpu=on_gpu, gpu_problem=gpu_problem)


def _headline(found: dict[str, Any], note: Note) -> dict[str, float]:
    for row in found["rows"]:
        note(row)
    note({"settings": found["settings"]})
    headline: dict[str, float] = found["headline"]
    return headline
