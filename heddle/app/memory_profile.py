"""The file of a memory profile: curves, the mix they were measured for, and what measured them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from heddle.core.errors import ConfigError
from heddle.costs.memory_split import MeasuredCurves, RatePoint, StageMix
from heddle.engines.llm.lanes.lane_role import LaneRole

VERSION: Final = 2


@dataclass(frozen=True, slots=True)
class MemoryProfile:
    """What `heddle profile --memory` has measured.

    Args:
        curves: throughput of generation, by bytes of KV pages, and of retrieval.
        mix: stages of a request of the workflow.
        workflow: its name.
        generator: the fingerprint of the LLM that was measured.
        cpu: the processor that it was measured on.
        lanes: the role of each LLM lane: the curve of generation is of all of them together.
    """

    curves: MeasuredCurves
    mix: StageMix
    workflow: str
    generator: str
    cpu: str
    lanes: tuple[LaneRole, ...] = (LaneRole.BOTH,)


def write_profile(profile: MemoryProfile, path: Path) -> None:
    """Write a profile.

    Raises:
        ConfigError: the file can't be written.
    """
    record = {
        "version": VERSION,
        "workflow": profile.workflow,
        "generator": profile.generator,
        "cpu": profile.cpu,
        "lanes": [role.value for role in profile.lanes],
        "mix": profile.mix._asdict(),
        "generation": [
            {"kv_bytes": size, "points": _pairs(points)}
            for size, points in sorted(profile.curves.generation.items())
        ],
        "retrieval": _pairs(profile.curves.retrieval),
    }
    try:
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the memory profile can't be written to {path}: {error}") from error


def read_profile(path: Path) -> MemoryProfile:
    """Return a profile that `write_profile` wrote.

    Raises:
        ConfigError: it isn't there, or it is something else.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return _profile(record)
    except OSError as error:
        raise ConfigError(f"memory_profile: {path} can't be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"memory_profile: {path} is no memory profile ({error!r}): make one with "
            "`heddle profile --memory --json FILE`"
        ) from error


def _profile(record: Mapping[str, Any]) -> MemoryProfile:
    if record["version"] != VERSION:
        raise ValueError(f"version {record['version']}, not {VERSION}")
    curves = MeasuredCurves(
        {int(one["kv_bytes"]): _points(one["points"]) for one in record["generation"]},
        _points(record["retrieval"]),
    )
    mix = StageMix(float(record["mix"]["generations"]), float(record["mix"]["searches"]))
    lanes = tuple(LaneRole(role) for role in record["lanes"])
    return MemoryProfile(
        curves, mix, str(record["workflow"]), str(record["generator"]), str(record["cpu"]), lanes
    )


def _pairs(points: Sequence[RatePoint]) -> list[list[float]]:
    return [list(point) for point in points]


def _points(pairs: Sequence[Sequence[float]]) -> tuple[RatePoint, ...]:
    return tuple(RatePoint(float(rate), float(answered)) for rate, answered in pairs)
