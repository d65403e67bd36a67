"""The tests of the kernels' modules and of recordings, which take the GPU where there is one."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from benchmarks.gpu.place import Note, Place
from heddle.core.errors import InternalError

ROOT: Final = Path(__file__).resolve().parents[2]
TESTS: Final = (
    "tests/unit/engines/llm/attention/test_triton_rows.py",
    "tests/unit/engines/vector/ivf/hot",
    "tests/unit/engines/vector/graph/gpu",
    "tests/unit/engines/embedding/test_recorded_encoder.py",
)
FEW: Final = ("-k", "one_query or fewer_nodes or refused")  # the suite runs the others anyway
# Warnings of another torch or Triton than CI's are no errors of the kernels.
PROCESSES: Final = 8
OPTIONS: Final = ("-q", "-W", "ignore", "--tb=short", "-p", "no:cacheprovider")
COUNT: Final = re.compile(r"(\d+) (passed|failed|error|errors|skipped)\b")


def run(place: Place, note: Note) -> dict[str, float]:
    """Run them; the headline counts them.

    Raises:
        InternalError: some failed; the part's log says which.
    """
    chosen = place.sized((), FEW)
    if not place.is_interpreted and find_spec("xdist"):
        chosen = (*chosen, "-n", str(PROCESSES))  # most of the time the compiler runs
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *OPTIONS, *chosen, *TESTS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stderr[-2_000:], done.stdout[-20_000:], sep="\n")
    counts = counted(done.stdout)
    for line in done.stdout.splitlines():
        if line.startswith(("FAILED", "ERROR", "E  ")):  # which, and what pytest says of it
            note({"failed": line[:300]})
    if done.returncode:
        raise InternalError(f"pytest ended with {done.returncode}: {counts or done.stderr[-200:]}")
    return {name: float(number) for name, number in counts.items()}


def counted(output: str) -> dict[str, int]:
    """Return the numbers of pytest's last line, by their words."""
    lines = output.strip().splitlines()
    return {word: int(number) for number, word in COUNT.findall(lines[-1] if lines else "")}
