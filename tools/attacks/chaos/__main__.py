"""`python -m tools.attacks.chaos [--requests N] [--only NAME]... [--fault NAME]... [--seed N]`."""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tools.attacks.chaos.campaign import Campaign, campaign, shuffled
from tools.attacks.chaos.faults import FAULTS, fill_disk
from tools.attacks.chaos.small_disk import small_disk
from tools.attacks.configuration import (
    CHANGES,
    GRAPH,
    KV_REUSE,
    PREFILL_DECODE,
    REPLICAS,
    SHARDS,
    Configuration,
)
from tools.attacks.ground import Ground
from tools.attacks.result import publish

BROKEN: Final = (CHANGES, PREFILL_DECODE, SHARDS, GRAPH, KV_REUSE, REPLICAS)
REQUESTS: Final = 3_000
# Kills and freezes of one server are fewer than what gives a lane up (docs/guide/serving.md).
PLAN: Final = (*FAULTS, "kill", "kill", "kill", "freeze")
NONE_ALLOWED: Final = ("lost", "answered_twice", "shown_twice")
PAUSES_S_MAX: Final = {
    "pause_kill_replica_s": 1.0,
    "pause_freeze_replica_s": 4.0,
    "pause_single_s": 10.0,  # and what a start takes
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Break each configuration in turn; 1 where a figure is off."""
    names = [configuration.name for configuration in BROKEN]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=REQUESTS, metavar="N")
    parser.add_argument("--only", action="append", choices=names, help="may be repeated")
    parser.add_argument("--fault", action="append", choices=list(FAULTS), help="may be repeated")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args(arguments)
    chosen = [c for c in BROKEN if not options.only or c.name in options.only]
    plan = options.fault or PLAN
    done = []
    with tempfile.TemporaryDirectory() as folder:
        ground = Ground(Path(folder))
        for configuration in chosen:
            requests = -(-options.requests // len(chosen))
            order = shuffled(plan, options.seed)
            with _corpus(ground, configuration, order) as corpus:
                seed = options.seed
                done.append(campaign(ground, configuration, corpus, order, FAULTS, requests, seed))
            for problem in done[-1].ledger.problems:
                print(f"  {problem}", flush=True)
    headline = headline_of(done)
    settings = {"requests": options.requests, "plan": list(plan), "seed": options.seed}
    publish("chaos", settings, [row_of(each) for each in done], headline, options.json)
    off = wrong_figures(done, headline)
    for line in off:
        print(line, file=sys.stderr)
    return 1 if off or any(each.ledger.problems for each in done) else 0


@contextmanager
def _corpus(ground: Ground, configuration: Configuration, order: list[str]) -> Iterator[Path]:
    """Yield a corpus, on a small disk where one can be filled.

    Mutates: `order`, where none can.
    """
    name = next(name for name, fault in FAULTS.items() if fault is fill_disk)
    if name not in order:
        yield ground.corpus(configuration.index_kind)
        return
    folder = ground.new_folder()
    with small_disk(folder) as failure:
        if failure:
            print(f"{configuration.name}: no {name}: {failure}", flush=True)
            order[:] = [other for other in order if other != name]
        yield ground.corpus(configuration.index_kind, folder / "corpus")


def headline_of(done: Sequence[Campaign]) -> dict[str, float]:
    """Return the figures of all campaigns together."""
    replicas = [each for each in done if each.configuration.has_replicas]
    single = [each for each in done if not each.configuration.has_replicas]
    ledgers = [each.ledger for each in done]
    return {
        "requests": sum(ledger.requests for ledger in ledgers),
        "faults": sum(each.faults.total() for each in done),
        "long_answers": sum(ledger.long_answers for ledger in ledgers),
        "answers_resumed": sum(ledger.answers_resumed for ledger in ledgers),
        "lost": sum(ledger.lost for ledger in ledgers),
        "answered_twice": sum(ledger.answered_twice for ledger in ledgers),
        "shown_twice": sum(ledger.shown_twice for ledger in ledgers),
        "pause_kill_replica_s": _longest([each.kill_pauses_s for each in replicas]),
        "pause_freeze_replica_s": _longest([each.freeze_pauses_s for each in replicas]),
        "pause_single_s": _longest([e.kill_pauses_s + e.freeze_pauses_s for e in single]),
        "start_s": round(max((each.start_s for each in done), default=0.0), 2),
        "exits": sum(sum(each.exits.values()) for each in done),
        "exits_right": sum(each.exits[True] for each in done),
    }


def wrong_figures(done: Sequence[Campaign], headline: dict[str, float]) -> list[str]:
    """Return a line for each figure that is off; sizes are the caller's choice, and never are."""
    off = [f"{name} is {headline[name]:g}, not 0" for name in NONE_ALLOWED if headline[name]]
    for name, limit_s in PAUSES_S_MAX.items():
        allowed_s = limit_s + (headline["start_s"] if name == "pause_single_s" else 0)
        if headline[name] > allowed_s:
            off.append(f"{name} is {headline[name]:g}, above {allowed_s:g}")
    if headline["exits_right"] < headline["exits"]:
        off.append(f"{headline['exits_right']:g} of {headline['exits']:g} exit codes were right")
    if not all(each.faults for each in done):
        off.append("a configuration met no fault")
    return off


def _longest(pauses_s: Sequence[Sequence[float]]) -> float:
    return round(max((pause_s for part in pauses_s for pause_s in part), default=0.0), 2)


def row_of(each: Campaign) -> dict[str, object]:
    """Return what a campaign did and found, as plain values."""
    ledger = each.ledger
    return {
        "configuration": each.configuration.name,
        "requests": ledger.requests,
        "statuses": {str(status): n for status, n in sorted(ledger.statuses.items())},
        "failed": ledger.failed,
        "cut": ledger.cut,
        "lost": ledger.lost,
        "faults": dict(each.faults),
        "exits_right": each.exits[True],
        "exits_wrong": each.exits[False],
        "kill_pauses_s": [round(pause_s, 2) for pause_s in each.kill_pauses_s],
        "freeze_pauses_s": [round(pause_s, 2) for pause_s in each.freeze_pauses_s],
        "head_pauses_s": [round(pause_s, 2) for pause_s in each.head_pauses_s],
        "start_s": round(each.start_s, 2),
    }


if __name__ == "__main__":
    sys.exit(main())
