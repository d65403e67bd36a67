"""What `auto` has become for a model on this machine: timed once, kept in the cache. (ADR 46)"""

import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from heddle.core.cache import cache_directory, cache_root, locked, read_json, write_json
from heddle.core.dtypes import forced_dtype
from heddle.core.instruction_sets import held, multiplies_bfloat16
from heddle.engines.llm.attention.choice import COMPILED, TORCH

FOLDER: Final = "computing"
GAIN_MIN: Final = 1.1  # less is noise: the candidate that stands first is taken
TRIAL: Final = 1  # how it is timed; another number forgets what was timed before
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A number type, and what computes the attention of prompts in it; both by their names."""

    dtype: str
    attention: str

    def __str__(self) -> str:
        return f"{self.dtype}, attention by {self.attention}"


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidate that was chosen, and the seconds of each; none: there was nothing to choose.

    The seconds are those of one layer, for a prompt and its answer.
    """

    chosen: Candidate
    seconds: tuple[tuple[Candidate, float], ...] = ()

    def __str__(self) -> str:
        """Return what was chosen, and why."""
        if not self.seconds:
            return str(self.chosen)
        timed = "; ".join(
            f"{1e3 * taken:.3g} ms by {candidate}" for candidate, taken in self.seconds
        )
        return f"{self.chosen} (a layer of a prompt and its answer takes {timed})"


def choose(seconds: tuple[tuple[Candidate, float], ...]) -> Choice:
    """Return the first candidate, or the one that is clearly the fastest."""
    first, first_s = seconds[0]
    fastest, fastest_s = min(seconds, key=lambda timed: timed[1])
    return Choice(fastest if first_s > GAIN_MIN * fastest_s else first, seconds)


def candidates_of(dtype: str, attention: str) -> tuple[Candidate, ...]:
    """Return what a model may be computed in on this CPU, by what is wanted; the likeliest first.

    What a CPU has to compute in software is several times slower: it isn't worth the trial's time.

    Args:
        dtype: float32, bfloat16 or auto.
        attention: torch, compiled or auto.
    Raises: ConfigError: HEDDLE_AUTO_DTYPE names another dtype.
    """
    dtypes: tuple[str, ...] = (dtype,)
    if dtype == "auto":
        timed = ("bfloat16", "float32") if multiplies_bfloat16() else ("float32",)
        forced = forced_dtype()
        dtypes = timed if forced is None else (forced,)
    ways = (COMPILED, TORCH) if attention == "auto" else (attention,)
    return tuple(Candidate(number, way) for number in dtypes for way in ways)


def key_of(model_dir: Path, candidates: tuple[Candidate, ...], threads: int) -> str:
    """Return what a choice is kept under: it holds for a model of these sizes, on this CPU.

    A process that is held to fewer instructions has its own choice.
    """
    sizes = read_json(model_dir / "config.json")
    named = [str(candidate) for candidate in candidates]
    level = held()
    computed_with = _cpu() if level is None else f"{_cpu()}\nheld to {level.name}"
    made_of = (TRIAL, sizes, named, threads, version("torch"), computed_with)
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:24]


def kept_choice(model_dir: Path, candidates: tuple[Candidate, ...], threads: int) -> Choice | None:
    """Return what was chosen for a model, None where it has not been loaded here yet."""
    if len(candidates) == 1:
        return Choice(candidates[0])
    return _read(_file(key_of(model_dir, candidates, threads)), candidates)


def kept_or_timed(
    key: str, candidates: tuple[Candidate, ...], time: Callable[[Candidate], float]
) -> Choice:
    """Return the choice that is kept under a key, made and kept now if there is none.

    Lanes that ask at the same time get one answer: KV that one computes another one reads.
    """
    if len(candidates) == 1:
        return Choice(candidates[0])
    try:
        cache_directory(FOLDER)
        path = _file(key)
        with locked(path.with_suffix(".lock")):
            choice = _read(path, candidates)
            if choice is None:
                choice = choose(tuple((candidate, time(candidate)) for candidate in candidates))
                write_json(path, [[c.dtype, c.attention, s] for c, s in choice.seconds])
                log.info("timed: %s", choice)
            return choice
    except OSError as error:
        # Without a place to agree in, lanes could differ: so the likeliest is taken.
        log.warning("nothing was timed, %s is taken: %s", candidates[0], error)
        return Choice(candidates[0])


def _file(key: str) -> Path:
    return cache_root() / FOLDER / f"{key}.json"


def _read(path: Path, candidates: tuple[Candidate, ...]) -> Choice | None:
    match read_json(path):
        case list(rows) if len(rows) == len(candidates):
            try:
                seconds = tuple((Candidate(str(d), str(a)), float(s)) for d, a, s in rows)
            except (TypeError, ValueError):
                return None
            return choose(seconds) if tuple(c for c, _ in seconds) == candidates else None
    return None


def _cpu() -> str:
    """Return what says which CPU this is; empty where the system doesn't."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(sorted({line for line in lines if line.startswith(wanted)}))
