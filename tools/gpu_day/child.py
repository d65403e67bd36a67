"""One part in a process of its own: rows are on the disk as soon as they are measured."""

import importlib
import os
import pickle
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tools.gpu_day.parts import Part
from tools.gpu_day.results import FAILED, RUNNING, WHOLE, Results

# A part's process is forked from one that has these: each takes seconds to import.
IMPORTED: Final = (
    "torch",
    "transformers",
    "faiss",
    "benchmarks.support.random_llama",
    "heddle.engines.llm.model.worker",
)
PROBLEM_LETTERS: Final = 400


@dataclass(frozen=True, slots=True)
class Order:
    """What a child is to do.

    Args:
        part: what is measured.
        kind: of the place.
        folder: of the results.
        log: takes in all that the part prints.
        source: stands for the code.
    """

    part: Part
    kind: str
    folder: Path
    log: Path
    source: str


def run(order: Order) -> None:
    """Measure, as the leader of a group of processes that can be ended together."""
    with suppress(PermissionError):  # begun anew, it leads already
        os.setsid()
    with order.log.open("ab", buffering=0) as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
    if order.kind == "cuda" and _has_forked_cuda():
        print("an import has begun CUDA before the fork: the process is begun anew", flush=True)
        words = f"from tools.gpu_day import child; child.run_pickled({pickle.dumps(order).hex()!r})"
        os.execv(sys.executable, [sys.executable, "-c", words])
    code = _measured(order)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # without the exit proper, in which a broken driver may hang


def run_pickled(order: str) -> None:
    """Do what `run` does, in a process that was begun anew."""
    run(pickle.loads(bytes.fromhex(order)))


def _has_forked_cuda() -> bool:
    """Whether this process was forked from one that had begun CUDA, and so can't use it."""
    import torch

    return bool(torch.cuda._is_in_bad_fork())


def _measured(order: Order) -> int:
    """Run the part; write its result as it grows. Returns the exit code."""
    results, begun_s = Results(order.folder), time.perf_counter()
    result = first_result(order)
    results.write(order.part.name, result)

    def note(row: dict[str, object]) -> None:
        result["rows"].append(row)
        results.write(order.part.name, result)

    try:
        # Late: the parent imports no torch, whose CUDA must not be begun before the fork.
        from benchmarks.gpu.place import Place
        from heddle.cli.bench import machine_record, version_record

        result["machine"], result["versions"] = machine_record(), version_record()
        place = Place.find(order.kind)
        result["settings"] |= place.record()
        module, _, name = order.part.function.partition(":")
        measure = getattr(importlib.import_module(module), name)
        result["headline"] = measure(place, note)
        result["state"] = WHOLE
    except BaseException as error:
        traceback.print_exc()
        result["state"], result["problem"] = FAILED, one_line(error)
    result["seconds"] = round(time.perf_counter() - begun_s, 2)
    with suppress(OSError):
        results.write(order.part.name, result)
    return 0 if result["state"] == WHOLE else 1


def first_result(order: Order) -> dict[str, Any]:
    """Return a result that says nothing yet."""
    gpu = "" if order.kind == "cuda" else f" GPU={order.kind}"
    return {
        "name": order.part.name,
        "state": RUNNING,
        "problem": "",
        "command": f"make gpu-day{gpu} ONLY={order.part.name}",
        "shows": order.part.shows,
        "source": order.source,
        "seed": 0,
        "seconds": 0.0,
        "settings": {"place": order.kind},
        "rows": [],
        "headline": {},
    }


def one_line(error: BaseException) -> str:
    """Return what went wrong in a line; of a group, its first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    words = " ".join(str(error).split()) or "no words"
    return f"{type(error).__name__}: {words}"[:PROBLEM_LETTERS]
