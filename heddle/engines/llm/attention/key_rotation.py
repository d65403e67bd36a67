"""Rotating keys and queries to their positions (RoPE), for each way a model pairs dimensions."""

import sys
from collections.abc import Callable
from typing import Any, Final, Protocol

import torch
from torch import Tensor

_ONE: Final = torch.ones((), dtype=torch.float64)
Rotator = Callable[[Tensor], None]  # keys [kv_heads, n, head_dim], where they lie


class KeyRotation(Protocol):
    """RoPE of one model: as its layers want it, and for keys that are stored already."""

    def embeddings(self, hidden: Tensor, positions: Tensor) -> tuple[Tensor, ...]:
        """Return what the layers rotate queries and keys by.

        Shapes: hidden [1, t, hidden], positions [1, t]; results [1, t, ...].
        """
        ...

    def rotate(self, keys: Tensor, tokens: int, out: Tensor) -> None:
        """Write stored keys, rotated by a distance; they may be of another number type.

        YaRN's attention scaling is in the stored keys already: applied once, not twice.

        Shapes: keys and out [..., kv_heads, n, head_dim].
        """
        ...

    def rotator(self, distances: Tensor) -> Rotator:
        """Return what rotates keys each by its own distance. Shapes: distances [n] int64."""
        ...


class LibraryRotation:
    """What transformers' own functions do, for any architecture.

    Args:
        core: a model's decoder.
    """

    def __init__(self, core: Any) -> None:  # noqa: ANN401 - transformers' class
        self._rotary = core.rotary_emb
        self._apply = sys.modules[type(core.rotary_emb).__module__].apply_rotary_pos_emb

    def embeddings(self, hidden: Tensor, positions: Tensor) -> tuple[Tensor, ...]:
        """Return cosines and sines. Shapes: see `KeyRotation`."""
        cos_sin: tuple[Tensor, ...] = self._rotary(hidden, positions)
        return cos_sin

    def rotate(self, keys: Tensor, tokens: int, out: Tensor) -> None:
        """Write stored keys, rotated by a distance. Shapes: see `KeyRotation`."""
        if tokens == 0 or keys.shape[-2] == 0:
            out.copy_(keys)
            return
        out.copy_(keys)
        self.rotator(torch.tensor([tokens], device=keys.device))(out)

    def rotator(self, distances: Tensor) -> Rotator:
        """Return what rotates keys each by its own distance. Shapes: see `KeyRotation`."""
        exact = torch.empty(0, dtype=torch.float32, device=distances.device)
        cos, sin = self._rotary(exact, distances[None])
        scaling = getattr(self._rotary, "attention_scaling", 1.0)
        cos, sin = cos / scaling, sin / scaling

        def rotate(keys: Tensor) -> None:
            exact = keys.float().reshape(1, -1, *keys.shape[-2:])
            # The function rotates queries as well: it gets one head in their place.
            _, rotated = self._apply(exact[:, :1], exact, cos, sin)
            keys.copy_(rotated.view(keys.shape))

        return rotate


class PairRotation:
    """Numbers that rotate together lie side by side: a rotation is one complex product. (ADR 10)

    Half as many operations on keys as with halves that lie apart, and each over long runs of
    memory: 1.0 against 4.5 ms for 7 chunks of 256 tokens and 6 layers of 256.

    Args:
        core: a model's decoder whose layers were fused (`fuse_layers`).
    """

    def __init__(self, core: Any) -> None:  # noqa: ANN401 - transformers' class
        self._frequencies: Tensor = core.rotary_emb.inv_freq.float()
        self._exact_frequencies = self._frequencies.double()
        self._size = torch.tensor(float(getattr(core.rotary_emb, "attention_scaling", 1.0)))
        none = torch.view_as_real(self.factors(torch.zeros(1, dtype=torch.long)))
        self.no_rotation = none.flatten(1)  # [1, head_dim], as the compiled kernel wants factors

    def embeddings(self, hidden: Tensor, positions: Tensor) -> tuple[Tensor, ...]:
        """Return one complex number for each pair. Shapes: [1, t, head_dim / 2] complex64."""
        angles = positions[..., None] * self._frequencies
        return (torch.polar(self._size.expand_as(angles), angles),)

    def rotate(self, keys: Tensor, tokens: int, out: Tensor) -> None:
        """Write stored keys, rotated by a distance. Shapes: see `KeyRotation`."""
        if tokens == 0:
            out.copy_(keys)
            return
        factors = self.factors(torch.tensor([tokens]))
        if out.dtype is torch.float32:
            torch.mul(as_pairs(keys.float()), factors, out=as_pairs(out))
        else:
            out.copy_(rotated(keys, factors))

    def rotator(self, distances: Tensor) -> Rotator:
        """Return what rotates keys each by its own distance. Shapes: see `KeyRotation`."""
        few, index = torch.unique(distances, return_inverse=True)
        factors = self.factors(few)[index]

        def rotate(keys: Tensor) -> None:
            if keys.dtype is torch.float32:
                as_pairs(keys).mul_(factors)
            else:
                keys.copy_(rotated(keys, factors))

        return rotate

    def factors(self, distances: Tensor) -> Tensor:
        """Return the factors that rotate by these distances.

        Shapes: distances [n] int64; result [n, head_dim / 2] complex64.
        """
        # In float64, so that a distance adds no rounding of an angle to those of the positions.
        angles = self._exact_frequencies * distances[:, None]
        return torch.polar(_ONE.expand_as(angles), angles).to(torch.complex64)


def as_pairs(states: Tensor) -> Tensor:
    """View float32 states as complex numbers. Shapes: [..., head_dim] to [..., head_dim / 2]."""
    return torch.view_as_complex(states.view(*states.shape[:-1], -1, 2))


def rotated(states: Tensor, factors: Tensor) -> Tensor:
    """Return states of any number type, rotated, in float32.

    Shapes: states and result [..., head_dim]; factors [..., head_dim / 2] complex64.
    """
    return torch.view_as_real(as_pairs(states.float()) * factors).flatten(-2)
