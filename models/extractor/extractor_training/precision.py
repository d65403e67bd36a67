"""Products in bfloat16 where the processor has instructions for them, in float32 elsewhere."""

import torch


def has_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 (AMX or AVX512-BF16)."""
    return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())


def autocast() -> torch.autocast:
    """A context in which matrix products take the faster type."""
    return torch.autocast("cpu", torch.bfloat16, enabled=has_bfloat16())
