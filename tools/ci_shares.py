"""Time the shares of a CI run beside their budgets. Needs Python's standard library only.

    python -m tools.ci_shares begin                  forgets the run before
    python -m tools.ci_shares run tests make test    runs a command and notes its time
    python -m tools.ci_shares report                 prints each share beside its budget

A command's exit code is passed on. A share over its budget fails nothing: it is marked. Commands
may run side by side: "in all" is the time from the first one's begin to the last one's end.
"""

import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Final

TIMES: Final = Path(__file__).resolve().parent.parent / ".ci" / "times.tsv"
BUDGETS_S: Final = {
    "tests": 10 * 60,
    "dist": 3 * 60,
    "attacks": 4 * 60,
    "clients and page": 3 * 60,
    "Ray and PostgreSQL": 3 * 60,
    "dry GPU day": 2 * 60,
}


def begin(times: Path) -> None:
    """Forget the times of an earlier run."""
    times.parent.mkdir(parents=True, exist_ok=True)
    times.write_text("", encoding="utf-8")


def run(times: Path, share: str, command: list[str]) -> int:
    """Run a command, note under a share when it began and ended [s], and return its exit code."""
    begun_s = time.perf_counter()  # from the start of the machine, so processes can compare it
    code = subprocess.run(command, check=False).returncode
    with times.open("a", encoding="utf-8") as file:
        file.write(f"{share}\t{begun_s:.1f}\t{time.perf_counter():.1f}\n")
    return code


def report(times: Path) -> str:
    """Return a table of the shares: those with a budget first, a mark where one is exceeded."""
    took_s: dict[str, float] = defaultdict(float)
    begins_s, ends_s = [], []
    for line in times.read_text(encoding="utf-8").splitlines():
        share, begun_s, ended_s = line.split("\t")
        took_s[share] += float(ended_s) - float(begun_s)
        begins_s.append(float(begun_s))
        ends_s.append(float(ended_s))
    lines = [f"{'share':<20}{'took':>8}{'budget':>8}"]
    for share, budget_s in BUDGETS_S.items():
        took = _minutes(took_s[share]) if share in took_s else "none"
        over = "  over budget" if took_s.get(share, 0) > budget_s else ""
        lines.append(f"{share:<20}{took:>8}{_minutes(budget_s):>8}{over}")
    others = [share for share in took_s if share not in BUDGETS_S]
    lines += [f"{share:<20}{_minutes(took_s[share]):>8}" for share in others]
    whole_s = max(ends_s, default=0.0) - min(begins_s, default=0.0)
    budget_s = sum(BUDGETS_S.values())
    over = "  over budget" if whole_s > budget_s else ""
    lines.append(f"{'in all':<20}{_minutes(whole_s):>8}{_minutes(budget_s):>8}{over}")
    return "\n".join(lines)


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


def main(arguments: list[str], times: Path = TIMES) -> int:
    """Run one of the three verbs; 2 where the arguments name none."""
    match arguments:
        case ["begin"]:
            begin(times)
        case ["run", share, program, *rest]:
            return run(times, share, [program, *rest])
        case ["report"]:
            print(report(times))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
