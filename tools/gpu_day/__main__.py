"""Run the parts that need a GPU, in order of worth.

    python -m tools.gpu_day                       what isn't whole yet, on the GPU
    python -m tools.gpu_day --budget 540          ends after nine minutes
    python -m tools.gpu_day --only kernels        those whose names hold a word; may be repeated
    python -m tools.gpu_day --on interpret        all of it, small, on a CPU
    python -m tools.gpu_day --unpack FILE         results that a machine brought back in one file

Results are written to docs/results/gpu (interpreted: to a folder that goes away), while they are
measured. A part that fails ends no other, and is run again by the next call. Exit code 1: a part
failed or was ended by force.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from heddle.core.cache import write_json
from heddle.core.errors import InputError
from tools.gpu_day.day import Day, Plan
from tools.gpu_day.parts import PARTS
from tools.gpu_day.results import CUT, FAILED, LEFT, ROOT, WHOLE, Results

KEPT: Final = ROOT / "docs" / "results" / "gpu"
CUDA, INTERPRET = "cuda", "interpret"
INTERPRETED_AT_ONCE: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a day; 1 where a part failed, 2 where the arguments make no sense."""
    options = _parser().parse_args(arguments)
    try:
        with ExitStack() as made:
            return _run(options, made)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2


def _run(options: argparse.Namespace, made: ExitStack) -> int:
    folder = options.folder
    if folder is None:
        passing = options.on == INTERPRET and options.unpack is None
        folder = Path(made.enter_context(tempfile.TemporaryDirectory())) if passing else KEPT
    if options.unpack is not None:
        print(f"unpacked {', '.join(Results(folder).unpack(options.unpack))}")
        return 0
    wanted = options.only or [""]
    chosen = [part for part in PARTS if any(word in part.name for word in wanted)]
    if not chosen:
        words = " or ".join(map(repr, wanted))
        raise InputError(f"no part's name holds {words}: {', '.join(p.name for p in PARTS)}")
    if options.list:
        for part in PARTS:
            lacks = f"; not installed: {', '.join(part.missing)}" if part.missing else ""
            print(f"{part.name:<28}{part.usual_s:>5.0f} s  {part.shows}{lacks}")
        return 0
    if options.on == INTERPRET:
        os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    else:
        os.environ.pop("TRITON_INTERPRET", None)
    # Of semaphores that imports leave in the process that the parts are forked from.
    os.environ.setdefault("PYTHONWARNINGS", "ignore::UserWarning:multiprocessing.resource_tracker")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    jobs = options.jobs or (INTERPRETED_AT_ONCE if options.on == INTERPRET else 1)
    plan = Plan(chosen, options.on, folder, options.packed, options.budget, jobs, options.again)
    day, begun_s = Day(plan), time.perf_counter()
    try:
        day.run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    figures = headline(day, time.perf_counter() - begun_s)
    print(", ".join(f"{name} {value:g}" for name, value in figures.items()))
    if options.json is not None:
        write_json(options.json, _summary(plan, day, figures))
    return 1 if figures["failed"] else 0


def headline(day: Day, seconds: float) -> dict[str, float]:
    """Return how many parts are whole, failed or were ended by force, and were left out."""
    states = [outcome.state for outcome in day.outcomes]
    return {
        "parts": states.count(WHOLE),
        "failed": states.count(FAILED) + states.count(CUT),
        "left_out": states.count(LEFT),
        "seconds": round(seconds, 1),
    }


def _summary(plan: Plan, day: Day, figures: dict[str, float]) -> dict[str, Any]:
    # Late: it imports packages that may be missing, which is a line of each part.
    from heddle.cli.bench import machine_record, version_record

    return {
        "name": "gpu-day",
        "machine": machine_record(),
        "versions": version_record(),
        "settings": {"place": plan.kind, "budget_s": plan.budget_s, "jobs": plan.jobs},
        "rows": [asdict(outcome) for outcome in day.outcomes],
        "headline": figures,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tools.gpu_day", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--on", choices=(CUDA, INTERPRET), default=CUDA)
    parser.add_argument(
        "--only",
        action="append",
        metavar="WORD",
        help="parts whose names hold this, or another such",
    )
    parser.add_argument("--list", action="store_true", help="show the parts, and run none")
    parser.add_argument("--budget", type=_positive, metavar="SECONDS", help="when to end")
    parser.add_argument("--again", action="store_true", help="measure what is whole, too")
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="parts at once")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="of the results")
    parser.add_argument("--packed", type=Path, metavar="FILE", help="all results in one file, too")
    parser.add_argument("--unpack", type=Path, metavar="FILE", help="write such a file's results")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a summary")
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError("need a time above 0 s")
    return value


if __name__ == "__main__":
    sys.exit(main())
