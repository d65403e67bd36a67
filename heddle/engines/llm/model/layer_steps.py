"""Steps of a layer between its products, each in one call of the compiled kernel. (ADR 45)"""

from typing import Final

import torch
from torch import Tensor

from heddle.kernels.compiled_kernel import Gates, Norms, RowKernel

TOKENS_ALONE_MAX: Final = 64  # fewer are computed before a second thread starts


def norm_states(
    kernel: RowKernel, states: Tensor, added: Tensor | None, weight: Tensor, least: float
) -> Tensor:
    """Add to states what a layer gave, and return them normed.

    Shapes: states, added and result [..., size]; weight [size] float32, times the root of size;
    `least` is the root of size times the norm's epsilon.
    Mutates: states.
    """
    assert states.is_contiguous(), "states are added to where they lie"
    out = torch.empty_like(states)
    more = None if added is None else added.contiguous()
    norms = norms_of(states.view(-1, 1, len(weight)), more, weight, least, out)
    kernel.norm(norms, _threads(norms.vectors))
    return out


def norm_heads(kernel: RowKernel, heads: Tensor, weight: Tensor, least: float) -> None:
    """Norm each head where it lies.

    Shapes: heads [t, heads, size], each token's side by side; weight and `least`: see
    `norm_states`.
    Mutates: heads.
    """
    kernel.norm(norms_of(heads, None, weight, least, heads), _threads(len(heads)))


def norms_of(
    states: Tensor, added: Tensor | None, weight: Tensor, least: float, out: Tensor
) -> Norms:
    """Return the kernel's work of adding to states and norming them.

    Shapes: states [t, parts, size], the parts of a token side by side; added and out lie like them.
    """
    tokens, parts, size = states.shape
    return Norms(
        states=states.data_ptr(),
        added=None if added is None else added.data_ptr(),
        weight=weight.data_ptr(),
        out=out.data_ptr(),
        vectors=tokens * parts,
        parts=parts,
        token_stride=states.stride(0),
        size=size,
        least=least,
    )


def gate_states(kernel: RowKernel, joined: Tensor) -> Tensor:
    """Return the second half of each row times the first one's SiLU.

    Shapes: joined [..., 2 size]; result [..., size].
    """
    joined = joined.contiguous()
    out = joined.new_empty(*joined.shape[:-1], joined.shape[-1] // 2)
    gates = gates_of(joined, out)
    kernel.gate(gates, _threads(gates.tokens))
    return out


def gates_of(joined: Tensor, out: Tensor) -> Gates:
    """Return the work of `gate_states`, of contiguous tensors."""
    size = out.shape[-1]
    return Gates(
        joined=joined.data_ptr(), out=out.data_ptr(), tokens=out.numel() // size, size=size
    )


def _threads(tokens: int) -> int:
    return 1 if tokens <= TOKENS_ALONE_MAX else torch.get_num_threads()
