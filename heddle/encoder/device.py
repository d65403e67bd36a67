"""The device and the dtype of an encoder."""

import torch

from heddle.core.dtypes import auto_dtype
from heddle.core.errors import ConfigError
from heddle.core.instruction_sets import multiplies_bfloat16


def find_device(name: str) -> torch.device:
    """Return a device by its name; auto = the GPU where there is one.

    Raises:
        ConfigError: this torch can't use it.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"device {name!r} can't be used: {error}; install a torch that can, or hide "
            "the device (CUDA_VISIBLE_DEVICES= hides all GPUs)"
        ) from error
    return device


def torch_dtype(name: str, device: torch.device) -> torch.dtype:
    """Return a dtype by its name; auto = bfloat16 where the device computes it in hardware."""
    if name == "auto":
        on_gpu = device.type == "cuda"
        native = _gpu_multiplies_bfloat16() if on_gpu else multiplies_bfloat16()
        name = auto_dtype(has_fast_bfloat16=native)
    return torch.bfloat16 if name == "bfloat16" else torch.float32


def _gpu_multiplies_bfloat16() -> bool:
    # Older GPUs (T4, V100) emulate it by slow conversions, which torch counts unless told not to.
    return bool(torch.cuda.is_bf16_supported(including_emulation=False))
