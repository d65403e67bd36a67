"""Which models a CPU computes in fused layers, without loading any."""

from typing import Final

FUSED_TYPES: Final = ("llama", "mistral", "qwen2", "qwen3")


def fuses_on_cpu(model_type: str, dtype: str, *, has_amx: bool) -> bool:
    """Whether a model's layers are of such a kind, in a dtype that a CPU is fast in.

    That is float32, and with AMX bfloat16.

    Args:
        model_type: as its config.json names it.
        dtype: of its products.
        has_amx: of the CPU.
    """
    return model_type in FUSED_TYPES and (dtype == "float32" or (dtype == "bfloat16" and has_amx))
