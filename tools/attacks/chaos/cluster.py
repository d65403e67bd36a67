"""`python -m tools.attacks.chaos.cluster [--requests N] [--seed N]`: nodes and links are lost.

Three agents on this machine stand for nodes, and each link leads through a proxy that can stop
forwarding. A server with two LLM lanes, and then one with a single lane, is asked by four clients
without a pause, while lanes are killed and frozen, nodes are killed, and links go dead without
being closed, at most five times a minute: a lane that is lost more often is given up. A third
server has its lane on a node of a Ray cluster, which also loses its head.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.support.ray_head import ray_token
from heddle.runtime.supervision import LaneLimits
from tools.attacks.chaos import node_faults, ray_faults
from tools.attacks.chaos.__main__ import headline_of, row_of, wrong_figures
from tools.attacks.chaos.campaign import Campaign, Fault, campaign, shuffled
from tools.attacks.chaos.nodes import Nodes
from tools.attacks.chaos.pace import Pace
from tools.attacks.chaos.ray_node import RayNode
from tools.attacks.configuration import Configuration
from tools.attacks.ground import Ground
from tools.attacks.result import publish

REPLICAS: Final = Configuration("nodes-replicas", ("--replicas", "llm=2"), has_replicas=True)
SINGLE: Final = Configuration("nodes-single")
RAY: Final = Configuration("nodes-ray")
REQUESTS: Final = 3_000
ROUNDS: Final = 5  # of all faults, for each configuration
FIGURES: Final = (
    "requests",
    "faults",
    "lost",
    "answered_twice",
    "shown_twice",
    "pause_kill_replica_s",
    "pause_freeze_replica_s",
    "pause_single_s",
    "start_s",
)
PAUSE_HEAD_S_MAX: Final = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Break all configurations; 1 where a figure is off."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=REQUESTS, metavar="N")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help="of all faults")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        ground = Ground(Path(folder))
        done = _campaigns(ground, -(-options.requests // 3), options.rounds, options.seed)
    heads = head_figures(done)
    headline = headline_of(done) | heads
    settings = {"requests": options.requests, "rounds": options.rounds, "seed": options.seed}
    figures = {name: headline[name] for name in (*FIGURES, *heads)}
    publish("chaos-cluster", settings, [row_of(each) for each in done], figures, options.json)
    off = wrong_figures(done, headline)
    if headline["pause_head_s"] > PAUSE_HEAD_S_MAX:
        off.append(f"pause_head_s is {headline['pause_head_s']:g}, above {PAUSE_HEAD_S_MAX:g}")
    for line in (*off, *(problem for each in done for problem in each.ledger.problems)):
        print(line, file=sys.stderr)
    return 1 if off or any(each.ledger.problems for each in done) else 0


def _campaigns(ground: Ground, requests: int, rounds: int, seed: int) -> list[Campaign]:
    """Strike each configuration with each of its faults `rounds` times."""

    def struck(
        configuration: Configuration, options: tuple[str, ...], faults: Mapping[str, Fault]
    ) -> Campaign:
        on_nodes = replace(configuration, options=(*configuration.options, *options))
        order, corpus = shuffled([*faults] * rounds, seed), ground.corpus(configuration.index_kind)
        pace = Pace(LaneLimits())
        paced = {name: pace.kept_by(fault) for name, fault in faults.items()}
        return campaign(ground, on_nodes, corpus, order, paced, requests, seed)

    done = []
    for configuration in (REPLICAS, SINGLE):
        folder = ground.new_folder()
        folder.mkdir()
        with closing(Nodes(folder)) as nodes:
            faults = {name: partial(fault, nodes) for name, fault in node_faults.FAULTS.items()}
            done.append(struck(configuration, nodes.options, faults))
    with ray_token(), closing(RayNode()) as node:
        faults = {name: partial(fault, node) for name, fault in ray_faults.FAULTS.items()}
        done.append(struck(RAY, node.options, faults))
    return done


def head_figures(done: Sequence[Campaign]) -> dict[str, float]:
    """Return how often Ray's head was lost, and the longest pause until an answer [s]."""
    pauses_s = [pause_s for each in done for pause_s in each.head_pauses_s]
    return {
        "head_losses": len(pauses_s),
        "pause_head_s": round(max(pauses_s, default=0.0), 2),
    }


if __name__ == "__main__":
    sys.exit(main())
