"""Queue depths of embedding lanes: the file of `heddle profile --together`, and who reads it."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from heddle.core.errors import ConfigError
from heddle.engines.embedding.admission_policies import WINDVE_SLO_S

VERSION: Final = 1
log = logging.getLogger(__name__)


class MeasuredOn(NamedTuple):
    """What depths hold for: the embedder, by which a corpus records it, and the processor."""

    embedder: str
    cpu: str


@dataclass(frozen=True, slots=True)
class FoundDepths:
    """A lane's queue depth under one SLO, found in three ways. (WindVE Table III)

    Args:
        regression: by a fit of few bursts on this lane alone.
        stress_test: the largest burst that keeps the SLO on this lane alone.
        fine_tuned: the same with all lanes loaded at once.
    """

    regression: int
    stress_test: int
    fine_tuned: int


@dataclass(frozen=True, slots=True)
class DepthTable:
    """Queue depths under one SLO [s], by the lanes' names."""

    slo_s: float
    lanes: Mapping[str, FoundDepths]


@dataclass(frozen=True, slots=True)
class WindveDepths:
    """What Algorithm 1 takes queries by.

    Args:
        slo_s: the time limit that depths are for [s].
        found: fine-tuned depths by lane; None = each lane's from bursts at start-up.
    """

    slo_s: float
    found: Mapping[str, int] | None = None

    def check(self, lanes: Sequence[str]) -> None:
        """Refuse depths that were found for other lanes.

        Raises:
            ConfigError: a lane has none.
        """
        if self.found is None:
            return
        missing = [name for name in lanes if name not in self.found]
        if missing:
            raise ConfigError(
                f"embedding_depths has depths of {', '.join(self.found)}, and this server has the "
                f"lane {missing[0]}: profile it again, with the same embedding_lanes and model"
            )


def windve_depths(
    admission: str, slo_s: float | None, file: str | Path | None, here: MeasuredOn | None = None
) -> WindveDepths | None:
    """Return what the settings of embedding admission ask for; None = no depths.

    Args:
        admission: how lanes take queries.
        slo_s: the time limit that depths are for [s]; None = WindVE's first.
        file: that a profile has written; None = there is none.
        here: the embedder and the processor of this server; None = not known.

    Raises:
        ConfigError: the file can't be read, it is another embedder's, or it has nothing for this
            SLO.
    """
    if admission != "windve":
        return None
    limit_s = WINDVE_SLO_S if slo_s is None else slo_s
    if file is None:
        return WindveDepths(limit_s)
    if here is not None:
        _check_origin(Path(file), here)
    tables = read_depths(Path(file))
    for table in tables:
        if table.slo_s == limit_s:
            found = {name: depths.fine_tuned for name, depths in table.lanes.items()}
            return WindveDepths(limit_s, found)
    there = ", ".join(f"{table.slo_s:g}" for table in tables)
    raise ConfigError(
        f"embedding_depths: {file} has depths for an SLO of {there} s, and embedding_slo_s is "
        f"{limit_s:g}: name one of those, or run `heddle profile --together --slo "
        f"{limit_s * 1e3:g}`"
    )


def depths_record(
    tables: Sequence[DepthTable], tokens: int, measured_on: MeasuredOn | None = None
) -> dict[str, object]:
    """Return the record that `read_depths` reads; `tokens` are a query's."""
    origin = {} if measured_on is None else measured_on._asdict()
    together = [asdict(table) for table in tables]
    return {"version": VERSION, "tokens": tokens, **origin, "together": together}


def read_depths(path: Path) -> tuple[DepthTable, ...]:
    """Return the tables of a file.

    Raises:
        ConfigError: it isn't there, or it is something else.
    """
    record = _record(path)
    try:
        return tuple(_table(table) for table in record["together"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _other_file(path, error) from error


def _check_origin(path: Path, here: MeasuredOn) -> None:
    """Refuse depths of another embedder, and warn of another processor's.

    Older files say neither.
    """
    record = _record(path)
    embedder, cpu = record.get("embedder", here.embedder), record.get("cpu", here.cpu)
    if embedder != here.embedder:
        raise ConfigError(
            f"embedding_depths: {path} was measured with the embedder {embedder}, and this server "
            f"has {here.embedder}: profile it again"
        )
    if cpu != here.cpu:
        log.warning(
            "embedding_depths: %s was measured on %s, and this machine has %s: depths may be far "
            "off; measure again with `heddle profile --together`",
            path,
            cpu,
            here.cpu,
        )


def _record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["version"] != VERSION:
            raise ValueError(f"version {record['version']!r}")
    except OSError as error:
        raise ConfigError(f"embedding_depths: {path} can't be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise _other_file(path, error) from error
    return dict(record)


def _other_file(path: Path, error: Exception) -> ConfigError:
    return ConfigError(
        f"embedding_depths: {path} holds no depths ({error!r}): make it with "
        "`heddle profile --together --json FILE`"
    )


def _table(record: Mapping[str, Any]) -> DepthTable:
    lanes = {name: FoundDepths(**depths) for name, depths in record["lanes"].items()}
    for depths in lanes.values():
        if not (isinstance(depths.fine_tuned, int) and depths.fine_tuned >= 0):
            raise ValueError(f"depth {depths.fine_tuned!r}")
    return DepthTable(float(record["slo_s"]), lanes)
