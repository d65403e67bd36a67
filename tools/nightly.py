"""What is too long for CI: `python -m tools.nightly [--only WORD] [--bench NAME]...`.

Runs every job, also after one has failed, and writes docs/results/nightly.json: each job's command,
its time and its end. Exit code 1: a job failed. The jobs are the tests marked `nightly`, the
mutations, 1,000 simulations with seeds that no night before has run, and the benchmarks that
--bench names.
"""

import argparse
import datetime
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "docs" / "results"
SEEDS: Final = 1_000
FIRST_NIGHT: Final = datetime.date(2026, 1, 1)
WORDS_KEPT: Final = 300  # of a job's output, its end


@dataclass(frozen=True, slots=True)
class Job:
    """A command that runs in the night; `arguments` go to this interpreter."""

    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a job ended: its exit code, its time [s], and the end of its output."""

    name: str
    command: str
    code: int
    seconds: float
    said: str


def jobs(night: datetime.date, benches: Sequence[str]) -> Iterator[Job]:
    """Yield a night's jobs. Each night has 1,000 seeds of its own, beyond those of the tests."""
    yield Job("tests", ("-m", "pytest", "-q", "-m", "nightly"))
    mutants = RESULTS / "mutants.json"
    yield Job("mutants", ("-m", "tools.mutants", "--json", str(mutants)))
    first = SEEDS * (10 + (night - FIRST_NIGHT).days)
    yield Job("simulation", ("-m", "heddle.simulator", "--seed", str(first), "--count", str(SEEDS)))
    for name in benches:
        result = RESULTS / f"{name}.json"
        yield Job(f"bench {name}", ("-m", "heddle.cli.main", "bench", name, "--json", str(result)))


def run(job: Job) -> Ended:
    """Run a job to its end and print what became of it."""
    begun_s = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *job.arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - begun_s
    said = (done.stdout + done.stderr).strip()[-WORDS_KEPT:]
    command = " ".join(("python", *job.arguments)).replace(f"{ROOT}/", "")
    print(f"{job.name}: {'passed' if not done.returncode else 'FAILED'} in {seconds:.0f} s")
    if done.returncode:
        print(said)
    return Ended(job.name, command, done.returncode, round(seconds, 1), said)


def write(path: Path, night: datetime.date, ended: Sequence[Ended]) -> None:
    """Write the night's result."""
    passed = sum(not one.code for one in ended)
    result = {
        "name": "nightly",
        "date": night.isoformat(),
        "rows": [asdict(one) for one in ended],
        "headline": {"jobs": len(ended), "passed": passed},
    }
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the jobs and write the result; 1 if one failed or none was chosen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_AsWritten)
    parser.add_argument("--only", default="", metavar="WORD", help="jobs whose names hold this")
    parser.add_argument("--bench", action="append", default=[], metavar="NAME")
    parser.add_argument("--json", type=Path, default=RESULTS / "nightly.json", metavar="FILE")
    options = parser.parse_args(arguments)
    night = datetime.datetime.now(datetime.UTC).date()
    ended = [run(job) for job in jobs(night, options.bench) if options.only in job.name]
    write(options.json, night, ended)
    return 1 if not ended or any(one.code for one in ended) else 0


class _AsWritten(argparse.RawDescriptionHelpFormatter):
    """Leaves the description's lines as they are."""


if __name__ == "__main__":
    sys.exit(main())
