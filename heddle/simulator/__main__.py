"""`python -m heddle.simulator`: replay one simulation, or run many."""

import argparse
import logging
import sys
from collections import Counter

from heddle.core.errors import InternalError
from heddle.simulator.event_log import EventLog
from heddle.simulator.faults import Fault
from heddle.simulator.simulation import random_scenario, simulate


def main(arguments: list[str]) -> int:
    """Run the simulations and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m heddle.simulator", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds, one after another")
    parser.add_argument("--log", action="store_true", help="print what happened last")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL if not options.log else logging.NOTSET)
    faults: Counter[Fault] = Counter()
    ends: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.count):
        log = EventLog()
        try:
            outcome = simulate(random_scenario(seed), log)
        except InternalError as error:
            print(error, file=sys.stderr)
            return 1
        finally:
            if options.log:
                print(*log.lines, sep="\n")
        faults += outcome.faults
        ends.update(ticket.end_name for ticket in outcome.tickets)
        if options.count == 1:
            print(f"seed {seed}: {outcome.digest}")
    print("ends:", ", ".join(f"{name} {count}" for name, count in sorted(ends.items())))
    print("faults:", ", ".join(f"{fault.value} {faults[fault]}" for fault in Fault))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
