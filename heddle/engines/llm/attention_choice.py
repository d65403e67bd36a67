"""What computes the attention of an LLM engine: torch, or the Triton kernel."""

import logging
import os
from importlib.util import find_spec
from typing import Final

from heddle.core.errors import ConfigError

TORCH: Final = "torch"
TRITON: Final = "triton"
ATTENTIONS: Final = ("auto", TORCH, TRITON)
log = logging.getLogger(__name__)


def choose_attention(wanted: str, *, on_gpu: bool) -> str:
    """Return TORCH or TRITON; auto takes the kernel on an NVIDIA GPU where triton is installed.

    Raises: ConfigError: the kernel is wanted and can't run.
    """
    is_installed = find_spec("triton") is not None
    if wanted == TRITON and not is_installed:
        raise ConfigError(
            "attention is 'triton', which is not installed: pip install 'heddle[gpu]', or use torch"
        )
    if wanted == TRITON and not on_gpu and os.environ.get("TRITON_INTERPRET") != "1":
        raise ConfigError("attention is 'triton', which needs an NVIDIA GPU; use auto or torch")
    if wanted == "auto" and on_gpu and not is_installed:
        log.warning("triton is not installed: attention is slower; pip install 'heddle[gpu]'")
    return TRITON if wanted == TRITON or (wanted == "auto" and on_gpu and is_installed) else TORCH
