"""What computes the attention of an LLM engine: torch, the Triton kernel, or the compiled one."""

import logging
import os
from importlib.util import find_spec
from typing import Final

from heddle.core.errors import ConfigError

TORCH: Final = "torch"
TRITON: Final = "triton"
COMPILED: Final = "compiled"
ATTENTIONS: Final = ("auto", TORCH, TRITON, COMPILED)
log = logging.getLogger(__name__)


def choose_attention(wanted: str, *, on_gpu: bool, gpu_problem: str = "") -> str:
    """Return TORCH, TRITON or COMPILED.

    Auto takes triton on an NVIDIA GPU where it is installed and fits, and on a CPU what the
    machine's C compiler makes; whether that works, and for which models, the worker finds out
    (ADR 23).

    Args:
        wanted: one of ATTENTIONS.
        on_gpu: whether the model is on a GPU.
        gpu_problem: why the Triton kernel can't run on that GPU, if so.

    Raises: ConfigError: the kernel is wanted and can't run.
    """
    if wanted == COMPILED and on_gpu:
        raise ConfigError("attention is 'compiled', which runs on a CPU; use auto or triton")
    is_installed = find_spec("triton") is not None
    if wanted == TRITON and not is_installed:
        raise ConfigError(
            "attention is 'triton', which is not installed: pip install 'heddle[gpu]', or use torch"
        )
    if wanted == TRITON and not on_gpu and os.environ.get("TRITON_INTERPRET") != "1":
        raise ConfigError("attention is 'triton', which needs an NVIDIA GPU; use auto or torch")
    if wanted == TRITON and gpu_problem:
        raise ConfigError(f"attention is 'triton', and {gpu_problem}; use auto or torch")
    if wanted == "auto" and on_gpu and is_installed and gpu_problem:
        log.info("attention is computed by torch, which is slower: %s", gpu_problem)
    if wanted == "auto" and on_gpu and not is_installed:
        log.info("triton is not installed: attention is slower; pip install 'heddle[gpu]'")
    if wanted != "auto":
        return wanted
    if on_gpu:
        return TRITON if is_installed and not gpu_problem else TORCH
    return COMPILED
