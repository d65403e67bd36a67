"""Which models a CPU computes in fused layers, without loading any."""

from typing import Final

FUSED_TYPES: Final = ("llama", "mistral", "qwen2", "qwen3")


def fuses_on_cpu(model_type: str, dtype: str, *, has_fast_bfloat16: bool) -> bool:
    """Whether a model's layers are of such a kind, in a dtype that a CPU is fast in.

    That is float32, and bfloat16 where it multiplies it in hardware.

    Args:
        model_type: as its config.json names it.
        dtype: of its products.
        has_fast_bfloat16: whether it does.
    """
    fast = ("float32", "bfloat16") if has_fast_bfloat16 else ("float32",)
    return model_type in FUSED_TYPES and dtype in fast
