"""`python -m tools.attacks.fuzz [--requests N] [--only NAME]... [--seed N] [--json FILE]`."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from heddle.workflow.presets import PRESETS
from tools.attacks.configuration import CHANGES, DEFAULT, GRAPH, KEYS, PREFILL_DECODE
from tools.attacks.fuzz.attack import Fuzzed, fuzz
from tools.attacks.good_requests import ROUTES
from tools.attacks.ground import Ground
from tools.attacks.result import publish

FUZZED: Final = (DEFAULT, CHANGES, PREFILL_DECODE, GRAPH, KEYS)
REQUESTS: Final = 30_000
ACCEPTED_MIN: Final = 0.15


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz each configuration in turn; 1 where a figure is off."""
    names = [configuration.name for configuration in FUZZED]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=REQUESTS, metavar="N")
    parser.add_argument("--only", action="append", choices=names, help="may be repeated")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args(arguments)
    chosen = [c for c in FUZZED if not options.only or c.name in options.only]
    count = -(-options.requests // len(chosen))
    done = []
    with tempfile.TemporaryDirectory() as folder:
        ground = Ground(Path(folder))
        for configuration in chosen:
            done.append(fuzz(ground, configuration, count, options.seed))
            _show(done[-1])
    headline = _headline(done)
    settings = {"requests": options.requests, "seed": options.seed, "configurations": names}
    settings["configurations"] = [configuration.name for configuration in chosen]
    publish("fuzz", settings, [fuzzed.row for fuzzed in done], headline, options.json)
    missing = _missing(done)
    for line in missing:
        print(line, file=sys.stderr)
    return 1 if missing or headline["server_errors"] or headline["crashes"] else 0


def _headline(done: Sequence[Fuzzed]) -> dict[str, int]:
    tallies = [fuzzed.tally for fuzzed in done]
    return {
        "requests": sum(tally.requests for tally in tallies),
        "accepted": sum(tally.accepted for tally in tallies),
        "workflows_run": len(set().union(*(tally.workflows for tally in tallies))),
        "server_errors": sum(tally.server_errors for tally in tallies),
        "crashes": sum(tally.crashes for tally in tallies),
    }


def _missing(done: Sequence[Fuzzed]) -> list[str]:
    """Return what was too rarely accepted."""
    headline = _headline(done)
    routes = set().union(*(fuzzed.tally.routes for fuzzed in done))
    workflows = set().union(*(fuzzed.tally.workflows for fuzzed in done))
    able = set().union(*(fuzzed.configuration.workflows for fuzzed in done))
    found = [f"no request to {route} was accepted" for route in sorted(ROUTES - routes)]
    found += [f"the workflow {name} was never run" for name in PRESETS if name in able - workflows]
    if headline["accepted"] < ACCEPTED_MIN * headline["requests"]:
        found.append(f"fewer than {ACCEPTED_MIN:.0%} of the requests were accepted")
    found += [
        f"{fuzzed.configuration.name} refused {fuzzed.tally.refused_good} good requests"
        for fuzzed in done
        if fuzzed.tally.refused_good
    ]
    found += [
        f"{fuzzed.tally.undescribed} replies of {fuzzed.configuration.name} aren't as described"
        for fuzzed in done
        if fuzzed.tally.undescribed
    ]
    return found


def _show(fuzzed: Fuzzed) -> None:
    print("  ".join(f"{name} {value}" for name, value in fuzzed.row.items()), flush=True)
    for finding in fuzzed.tally.findings:
        print(f"  {finding.what}\n    sent {finding.sent}\n    came {finding.came}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
