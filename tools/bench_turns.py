"""Compare a commit's benchmarks with the working tree's, in turns on one machine.

    python -m tools.bench_turns --against COMMIT [--turns N] [--full] [--json FILE] NAME...

Each turn runs `heddle bench NAME` once in a checkout of the commit and once here; the first of the
two alternates. The table gives the median of each figure of the headline before and now, and the
median of the turns' ratios with their range. A machine that is slow for a while slows both.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from heddle.cli.bench import machine_record, version_record

ROOT: Final = Path(__file__).resolve().parents[1]
TURNS: Final = 5
Headline = dict[str, float]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of a benchmark over all turns; `ratio` is now over before."""

    benchmark: str
    figure: str
    before: float
    now: float
    ratio: float
    ratio_low: float
    ratio_high: float

    def line(self) -> str:
        """Return the figure as a row of the table."""
        span = f"{self.ratio_low:.3f} to {self.ratio_high:.3f}"
        return (
            f"{self.benchmark:<18}{self.figure:<26}{self.before:>12.5g}{self.now:>12.5g}"
            f"{self.ratio:>8.3f}  {span}"
        )


def compared(benchmark: str, turns: Sequence[tuple[Headline, Headline]]) -> list[Comparison]:
    """Compare the figures that every headline has; those that are 0 before have no ratio.

    Args:
        benchmark: its name.
        turns: the headlines before and now of each turn.
    """
    figures = set.intersection(*(set(one) for turn in turns for one in turn))
    rows = []
    for figure in (name for name in turns[0][0] if name in figures):
        pairs = [(float(before[figure]), float(now[figure])) for before, now in turns]
        ratios = [now / before for before, now in pairs if before]
        if ratios:
            rows.append(
                Comparison(
                    benchmark,
                    figure,
                    statistics.median(before for before, _ in pairs),
                    statistics.median(now for _, now in pairs),
                    statistics.median(ratios),
                    min(ratios),
                    max(ratios),
                )
            )
    return rows


def headline(tree: Path, benchmark: str, *, full: bool) -> Headline:
    """Run a benchmark in a checkout and return its headline.

    Raises:
        CalledProcessError: it failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        command = [sys.executable, "-m", "heddle.cli.main", "bench", benchmark]
        command += ["--json", str(result), *([] if full else ["--quick"])]
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.DEVNULL, check=True)
        found: Headline = json.loads(result.read_text(encoding="utf-8"))["headline"]
    return found


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """Check a commit out into a folder that is removed again."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "before"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks in turns and print the table."""
    description, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(description=description, epilog=details)
    parser.add_argument("names", nargs="+", metavar="NAME", help="benchmarks")
    parser.add_argument("--against", required=True, metavar="COMMIT", help="commit to compare with")
    parser.add_argument("--turns", type=int, default=TURNS, metavar="N", help="turns; default: 5")
    parser.add_argument("--full", action="store_true", help="full runs instead of quick ones")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    options = parser.parse_args(arguments)
    rows: list[Comparison] = []
    print(f"{'benchmark':<18}{'figure':<26}{'before':>12}{'now':>12}{'ratio':>8}  range")
    with checkout(options.against) as before:
        for name in options.names:
            turns = []
            for turn in range(options.turns):
                trees = (before, ROOT) if turn % 2 == 0 else (ROOT, before)
                found = {tree: headline(tree, name, full=options.full) for tree in trees}
                turns.append((found[before], found[ROOT]))
            rows += compared(name, turns)
            print("\n".join(row.line() for row in rows if row.benchmark == name), flush=True)
    if options.json is not None:
        settings = {"against": options.against, "turns": options.turns, "full": options.full}
        record = {
            "name": "bench-turns",
            "machine": machine_record(),
            "versions": version_record(),
            "settings": settings,
            "rows": [asdict(row) for row in rows],
            "headline": {f"{row.benchmark}.{row.figure}": row.ratio for row in rows},
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
