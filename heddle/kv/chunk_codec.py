"""How chunk KV is stored: as computed, in bf16, or in int8 with a scale for each channel."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch

from heddle.core.errors import InputError
from heddle.kv.kv_encoding import KvEncoding
from heddle.kv.page_store import KvBlock

INT8_MAX = 127


@dataclass(frozen=True, slots=True, eq=False)
class EncodedKv:
    """A chunk's KV as it is stored.

    Args:
        tensors: `keys` and `values` [layers, kv_heads, tokens, head_dim]; for int8 also
            `key_scales` and `value_scales` [layers, kv_heads, 1, head_dim] float32.
        dtype: of the KV as it was computed.
        error: what storing it loses: relative L2 error of keys or values, the larger.
    """

    tensors: Mapping[str, torch.Tensor]
    dtype: torch.dtype
    error: float

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    def pinned(self) -> "EncodedKv":
        """Return a copy in page-locked memory; needs a CUDA device."""
        tensors = {name: tensor.pin_memory() for name, tensor in self.tensors.items()}
        return replace(self, tensors=tensors)


def encode(block: KvBlock, encoding: KvEncoding) -> EncodedKv:
    """Copy a block to host memory in its stored form, and measure what that loses.

    Raises:
        InputError: the KV holds NaN or infinity.
    """
    store = _int8 if encoding is KvEncoding.INT8 else _cast(block, encoding)
    tensors = {**store("key", block.keys), **store("value", block.values)}
    encoded = EncodedKv(tensors, block.keys.dtype, 0.0)
    stored = decode(encoded)
    errors = (
        _relative_error(stored.keys, block.keys),
        _relative_error(stored.values, block.values),
    )
    if not all(map(math.isfinite, errors)):
        raise InputError("the chunk's KV holds NaN or infinity; it is not stored")
    return EncodedKv(tensors, block.keys.dtype, max(errors))


def decode(encoded: EncodedKv) -> KvBlock:
    """Return the KV as numbers that can be converted to the type in which it was computed.

    What is stored as computed or in bf16 is shared, not copied: it's converted where it is copied
    to, in one pass.
    """
    return KvBlock(_decoded(encoded, "key"), _decoded(encoded, "value"))


def _cast(
    block: KvBlock, encoding: KvEncoding
) -> Callable[[str, torch.Tensor], dict[str, torch.Tensor]]:
    dtype = torch.bfloat16 if encoding is KvEncoding.BF16 else block.keys.dtype
    # A copy even where nothing changes: a view would keep the whole pool it looks into alive.
    return lambda name, kv: {f"{name}s": kv.to("cpu", dtype, copy=True).contiguous()}


def _int8(name: str, kv: torch.Tensor) -> dict[str, torch.Tensor]:
    """Quantise symmetrically: one scale for each layer, head and channel, over the tokens."""
    exact = kv.to("cpu", torch.float32)
    scales = exact.abs().amax(dim=2, keepdim=True) / INT8_MAX
    steps = torch.where(scales > 0, exact / scales, 0.0)
    return {f"{name}s": steps.round().to(torch.int8), f"{name}_scales": scales}


def _decoded(encoded: EncodedKv, name: str) -> torch.Tensor:
    kv = encoded.tensors[f"{name}s"]
    scales = encoded.tensors.get(f"{name}_scales")
    return kv if scales is None else (kv * scales).to(encoded.dtype)


def _relative_error(stored: torch.Tensor, exact: torch.Tensor) -> float:
    exact = exact.to("cpu", torch.float32)
    size = float(torch.linalg.vector_norm(exact))
    difference = stored.to(torch.float32, copy=True)
    lost = float(torch.linalg.vector_norm(difference.sub_(exact)))
    return lost / size if size > 0 else lost
