"""`python -m heddle.simulator`: replay one simulation, or run many."""

import argparse
import logging
import sys
from collections import Counter
from dataclasses import replace

from heddle.runtime.clock import SystemClock
from heddle.simulator.event_log import EventLog
from heddle.simulator.faults import Fault, Strike
from heddle.simulator.shrinking import Shrinker
from heddle.simulator.simulation import Attempt, Scenario, attempt, broken, random_scenario


def main(arguments: list[str]) -> int:
    """Run the simulations and return the exit code."""
    options = _options(arguments)
    logging.disable(logging.CRITICAL if not options.log else logging.NOTSET)
    faults: Counter[Fault] = Counter()
    ends: Counter[str] = Counter()
    clock = SystemClock()
    began_s = clock.now_s()
    for seed in range(options.seed, options.seed + options.count):
        log = EventLog()
        scenario = replace(
            random_scenario(seed), requests_kept=options.requests, strikes=options.strikes
        )
        done = attempt(scenario, log)
        if options.log:
            print(*log.lines, sep="\n")
        if done.problems:
            _report(scenario, done, shrinks=options.requests is None and options.strikes is None)
            return 1
        faults += done.world.faults_drawn()
        ends.update(ticket.end_name for ticket in done.world.tickets)
        if options.count == 1:
            print(f"seed {seed}: {log.digest}")
    print("ends:", ", ".join(f"{name} {count}" for name, count in sorted(ends.items())))
    print("faults:", ", ".join(f"{fault.value} {faults[fault]}" for fault in Fault))
    if options.count > 1:
        took_s = clock.now_s() - began_s
        print(f"{options.count} seeds in {took_s:.1f} s, {options.count / took_s:.1f} a second")
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m heddle.simulator", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds, one after another")
    parser.add_argument("--log", action="store_true", help="print what happened last")
    parser.add_argument(
        "--requests",
        type=_numbers,
        metavar="N,N",
        help="only these requests arrive, by their numbers from 0; 'none': no request",
    )
    parser.add_argument(
        "--strikes",
        type=_strikes,
        metavar="PLACE:N,PLACE:N",
        help="only these faults strike: a lane, the disk or the server, and at which of its steps, "
        "writes or arrivals; 'none': no fault",
    )
    return parser.parse_args(arguments)


def _numbers(text: str) -> frozenset[int]:
    return frozenset() if text == "none" else frozenset(int(part) for part in text.split(","))


def _strikes(text: str) -> frozenset[Strike]:
    if text == "none":
        return frozenset()
    parts = (part.rpartition(":") for part in text.split(","))
    return frozenset((place, int(draw)) for place, _, draw in parts)


def _report(scenario: Scenario, done: Attempt, *, shrinks: bool) -> None:
    """Print what broke and, for a whole scenario, the smallest one that still breaks."""
    print(broken(scenario, done.problems), file=sys.stderr, flush=True)
    if not shrinks:
        return
    smallest = Shrinker().shrunk(scenario)
    requests, strikes = smallest.requests_kept or (), smallest.strikes or ()
    print(f"shrunk to {len(requests)} request(s) and {len(strikes)} fault(s):", file=sys.stderr)
    print(broken(smallest, attempt(smallest).problems), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
