"""How a server's memory is split by its memory profile."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from heddle.app.memory_profile import read_profile
from heddle.app.models.model_files import ModelFiles
from heddle.app.stage_mix import stage_mix_of
from heddle.core.errors import ConfigError
from heddle.costs.memory_split import MeasuredCurves, MemorySplit, StageMix, split_memory
from heddle.engines.llm.lanes.lane_role import LaneRole

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MemorySplitter:
    """Splits memory for some requests.

    Args:
        curves: what the memory profile has measured.
        mix: stages of a request.
        rate_per_s: requests a second that are expected; inf = as many as are served.
    """

    curves: MeasuredCurves
    mix: StageMix
    rate_per_s: float

    def split(self, budget_bytes: int) -> MemorySplit:
        """Return the split of these bytes.

        Raises:
            ConfigError: no measured size fits into them.
        """
        return split_memory(self.curves, self.mix, self.rate_per_s, budget_bytes)


def memory_splitter(
    profile: str | Path | None,
    generator: ModelFiles | None,
    lanes: Sequence[LaneRole],
    rate_per_s: float | None,
    stage_mix: str | None,
    cpu: str,
) -> MemorySplitter | None:
    """Return what splits the memory; None where no profile, or no LLM of this machine, is.

    Args:
        profile: the file.
        generator: the LLM's files.
        lanes: the role of each of its lanes.
        rate_per_s: requests a second that are expected; None = as many as are served.
        stage_mix: stages of a request, as a setting; None = those that the profile holds.
        cpu: the processor of this machine; the log warns of a profile of another one.

    Raises:
        ConfigError: the file can't be used, or another model or other lanes were measured.
    """
    if profile is None or generator is None:
        return None
    known = read_profile(Path(profile))
    if known.generator != generator.fingerprint:
        raise ConfigError(
            f"memory_profile: {profile} was measured with {known.generator}, and the generator is "
            f"{generator.fingerprint}: measure again with `heddle profile --memory`"
        )
    if known.lanes != tuple(lanes):
        measured, own = (", ".join(roles) for roles in (known.lanes, lanes))
        raise ConfigError(
            f"memory_profile: {profile} was measured with the LLM lanes {measured}, and llm_lanes "
            f"and replicas make {own}: measure again with `heddle profile --memory`"
        )
    if known.cpu != cpu:
        log.warning(
            "memory_profile: %s was measured on %s, and this machine has %s: the split may be far "
            "off; measure again with `heddle profile --memory`",
            profile,
            known.cpu,
            cpu,
        )
    rate = math.inf if rate_per_s is None else rate_per_s
    mix = known.mix if stage_mix is None else stage_mix_of(stage_mix)
    return MemorySplitter(known.curves, mix, rate)
