"""What is shipped: the two factors of each adapted product, in half precision."""

from pathlib import Path

import torch
from safetensors.torch import save_file

from .adapted_llama import SCALE, AdaptedLlama, Factors


def export_adapter(model: AdaptedLlama, path: Path, notes: dict[str, str]) -> None:
    """Write `NAME.down` [rank, in] and `NAME.up` [out, rank]; their product is added to the weight.

    notes: what the file says of itself.
    """
    tensors = {}
    for key, factors in model.factors.items():
        assert isinstance(factors, Factors)
        name = key.replace("/", ".")
        tensors[f"{name}.down"] = factors.down.detach().to("cpu", torch.float16).contiguous()
        tensors[f"{name}.up"] = (SCALE * factors.up.detach()).to("cpu", torch.float16).contiguous()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    save_file(tensors, partial, metadata=notes)
    partial.chmod(0o644)  # it is the owner's alone as written, and is to ship
    partial.replace(path)
