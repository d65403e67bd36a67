"""`python -m tools.attacks.chaos.cluster [--requests N] [--seed N]`: nodes and links are lost.

Three agents on this machine stand for nodes, and each link leads through a proxy that can stop
forwarding. A server with two LLM lanes, and then one with a single lane, is asked by four clients
without a pause, while lanes are killed and frozen, nodes are killed, and links go dead without
being closed.
"""

import argparse
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from tools.attacks.chaos.__main__ import headline_of, row_of, wrong_figures
from tools.attacks.chaos.campaign import Campaign
from tools.attacks.chaos.crowd import Crowd
from tools.attacks.chaos.ledger import Ledger
from tools.attacks.chaos.nodes import Nodes
from tools.attacks.chaos.scene import Scene
from tools.attacks.configuration import Configuration
from tools.attacks.ground import Ground
from tools.attacks.result import publish
from tools.attacks.served import Served

REPLICAS: Final = Configuration("nodes-replicas", ("--replicas", "llm=2"), has_replicas=True)
SINGLE: Final = Configuration("nodes-single")
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
Fault: TypeAlias = Callable[[Scene, Nodes], None]


def kill_lane(scene: Scene, nodes: Nodes) -> None:
    """SIGKILL an LLM lane on its node."""
    _, lane = nodes.with_lane(scene.random)
    lane.kill()
    scene.kill_pauses_s.append(scene.until_answered())


def freeze_lane(scene: Scene, nodes: Nodes) -> None:
    """SIGSTOP an LLM lane on its node."""
    _, lane = nodes.with_lane(scene.random)
    lane.send_signal(signal.SIGSTOP)
    scene.freeze_pauses_s.append(scene.until_answered())


def kill_node(scene: Scene, nodes: Nodes) -> None:
    """SIGKILL the agent of a node with a lane; another agent comes there after the next answer."""
    node, _ = nodes.with_lane(scene.random)
    node.kill()
    scene.kill_pauses_s.append(scene.until_answered())
    node.start_again()


def cut_link(scene: Scene, nodes: Nodes) -> None:
    """Let the link of a node with a lane go dead without being closed, until the next answer."""
    node, _ = nodes.with_lane(scene.random)
    node.link.stall()
    scene.freeze_pauses_s.append(scene.until_answered())
    node.link.resume()


FAULTS: Final[Mapping[str, Fault]] = {
    "kill": kill_lane,
    "freeze": freeze_lane,
    "kill-node": kill_node,
    "half-open": cut_link,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Break both configurations; 1 where a figure is off."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=REQUESTS, metavar="N")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help="of all faults")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        ground = Ground(Path(folder))
        requests = -(-options.requests // 2)
        done = [
            _campaign(ground, configuration, requests, options.rounds, options.seed)
            for configuration in (REPLICAS, SINGLE)
        ]
    headline = headline_of(done)
    settings = {"requests": options.requests, "rounds": options.rounds, "seed": options.seed}
    figures = {name: headline[name] for name in FIGURES}
    publish("chaos-cluster", settings, [row_of(each) for each in done], figures, options.json)
    off = wrong_figures(done, headline)
    for line in (*off, *(problem for each in done for problem in each.ledger.problems)):
        print(line, file=sys.stderr)
    return 1 if off or any(each.ledger.problems for each in done) else 0


def _campaign(
    ground: Ground, configuration: Configuration, requests: int, rounds: int, seed: int
) -> Campaign:
    """Strike with each fault `rounds` times, in an order that the seed draws, while clients ask."""
    order = list(FAULTS) * rounds
    random.Random(seed).shuffle(order)
    ledger, struck = Ledger(), Counter[str]()
    folder = ground.new_folder()
    folder.mkdir()
    with ExitStack() as stack:
        nodes = Nodes(folder)
        stack.callback(nodes.close)
        on_nodes = replace(configuration, options=(*configuration.options, *nodes.options))
        server = Served(ground, on_nodes, ground.corpus(configuration.index_kind))
        stack.callback(_kill, server)
        scene = Scene(ground, server, ledger, seed)
        with Crowd(server, ledger, seed) as crowd:
            scene.crowd = crowd
            for number, name in enumerate(order, start=1):
                FAULTS[name](scene, nodes)
                struck[name] += 1
                crowd.wait_for(requests * number // len(order))
                print(f"{configuration.name}: {name}, {ledger.requests} requests", flush=True)
        scene.check_answers()
        scene.stopped(0)
    return Campaign(
        configuration,
        ledger,
        struck,
        scene.exits,
        scene.kill_pauses_s,
        scene.freeze_pauses_s,
        server.start_s,
    )


def _kill(server: Served) -> None:
    if server.is_alive:
        server.kill()


if __name__ == "__main__":
    sys.exit(main())
