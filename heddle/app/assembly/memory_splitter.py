"""How a server's memory is split by its memory profile."""

import math
from collections.abc import Callable
from pathlib import Path

from heddle.app.memory_profile import read_profile
from heddle.app.models.model_files import ModelFiles
from heddle.core.errors import ConfigError
from heddle.costs.memory_split import MemorySplit, split_memory


def splitter(
    profile: str | Path | None, generator: ModelFiles | None, rate_per_s: float | None
) -> Callable[[int], MemorySplit] | None:
    """Return what splits a number of bytes; None where no profile, or no LLM of this machine, is.

    Args:
        profile: the file.
        generator: the LLM's files.
        rate_per_s: requests a second that are expected; None = as many as are served.

    Raises:
        ConfigError: the file can't be used, or another model was measured.
    """
    if profile is None or generator is None:
        return None
    known = read_profile(Path(profile))
    if known.generator != generator.fingerprint:
        raise ConfigError(
            f"memory_profile: {profile} was measured with {known.generator}, and the generator is "
            f"{generator.fingerprint}: measure again with `heddle profile --memory`"
        )
    rate = math.inf if rate_per_s is None else rate_per_s
    return lambda budget_bytes: split_memory(known.curves, known.mix, rate, budget_bytes)
