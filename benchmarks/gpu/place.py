"""Where a part computes: on a GPU, or on a CPU that stands in for it."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self, TypeVar

import torch

from heddle.core.errors import ConfigError

CUDA: Final = "cuda"
INTERPRET: Final = "interpret"
KINDS: Final = (CUDA, INTERPRET)
Note = Callable[[dict[str, object]], None]
"""Takes a row as soon as it is measured: what a part has noted survives its end by force."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """A device, and whether it is real.

    `dtype` is what models compute in: bfloat16 on a GPU; the interpreter, which computes with
    numpy, has none.
    """

    device: torch.device
    dtype: torch.dtype
    is_interpreted: bool

    @classmethod
    def find(cls, kind: str) -> Self:
        """Return the place of a kind.

        Raises:
            ConfigError: there is no GPU, or Triton is not set to interpret.
        """
        if kind == INTERPRET:
            if os.environ.get("TRITON_INTERPRET") != "1":
                raise ConfigError("to interpret Triton's kernels, set TRITON_INTERPRET=1")
            return cls(torch.device("cpu"), torch.float32, True)
        if not torch.cuda.is_available():
            raise ConfigError(f"torch {torch.__version__} finds no GPU; try GPU={INTERPRET}")
        return cls(torch.device("cuda", 0), torch.bfloat16, False)

    def sized(self, real: T, small: T) -> T:
        """Return what is measured on a GPU, or the small stand-in."""
        return small if self.is_interpreted else real

    def record(self) -> dict[str, object]:
        """Return the device as results name it."""
        if self.is_interpreted:
            return {"device": "none: Triton's interpreter on a CPU", "dtype": str(self.dtype)}
        facts = torch.cuda.get_device_properties(self.device)
        return {
            "device": facts.name,
            "dtype": str(self.dtype),
            "capability": f"{facts.major}.{facts.minor}",
            "multiprocessors": facts.multi_processor_count,
            "memory_bytes": facts.total_memory,
            "cuda": str(torch.version.cuda),
        }
