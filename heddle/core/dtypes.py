"""The dtypes that models compute in, and what "auto" stands for."""

import os
from typing import Final

from heddle.core.errors import ConfigError

DTYPES: Final = ("auto", "float32", "bfloat16")
WHOLE: Final = "full"  # weights as their files have them, in the number type of the model
INT8: Final = "int8"  # weights on a grid of 8 bits (ADR 47)
WEIGHTS: Final = (WHOLE, INT8)
VARIABLE: Final = "HEDDLE_AUTO_DTYPE"


def auto_dtype(*, has_fast_bfloat16: bool) -> str:
    """Return the dtype that "auto" stands for on a device, as far as a rule says it.

    bfloat16 where the device computes it in hardware, else float32, which is several times faster
    there. An LLM on a CPU is timed besides (ADR 46).

    Raises:
        ConfigError: as `forced_dtype`.
    """
    return forced_dtype() or ("bfloat16" if has_fast_bfloat16 else "float32")


def forced_dtype() -> str | None:
    """Return what the environment variable HEDDLE_AUTO_DTYPE says that "auto" stands for.

    It overrides the choice, in lane processes, too: the test suite runs under both dtypes on any
    machine.

    Raises:
        ConfigError: the variable names another dtype.
    """
    forced = os.environ.get(VARIABLE)
    if not forced:
        return None
    if forced not in DTYPES[1:]:
        raise ConfigError(f"{VARIABLE} must be one of {', '.join(DTYPES[1:])}, got {forced!r}")
    return forced
