"""What is lost of three nodes: each function strikes once, and leaves a server that answers.

It strikes when every lane is there: what a second loss does meanwhile is another question.
"""

import signal
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from tools.attacks.chaos.nodes import Nodes
from tools.attacks.chaos.scene import Scene

NodeFault: TypeAlias = Callable[[Nodes, Scene], None]


def kill_lane(nodes: Nodes, scene: Scene) -> None:
    """SIGKILL an LLM lane on its node."""
    scene.until_ready()
    restarts = scene.server.lane_restarts()
    _, lane = nodes.with_lane(scene.random)
    lane.kill()
    scene.kill_pauses_s.append(scene.until_answered())
    scene.until_noticed(restarts)


def freeze_lane(nodes: Nodes, scene: Scene) -> None:
    """SIGSTOP an LLM lane on its node."""
    scene.until_ready()
    _, lane = nodes.with_lane(scene.random)
    lane.send_signal(signal.SIGSTOP)
    scene.freeze_pauses_s.append(scene.until_answered())


def kill_node(nodes: Nodes, scene: Scene) -> None:
    """SIGKILL the agent of a node with a lane; another agent comes there after the next answer."""
    scene.until_ready()
    restarts = scene.server.lane_restarts()
    node, _ = nodes.with_lane(scene.random)
    node.kill()
    scene.kill_pauses_s.append(scene.until_answered())
    scene.until_noticed(restarts)
    node.start_again()


def cut_link(nodes: Nodes, scene: Scene) -> None:
    """Let the link of a node with a lane go dead without being closed, until the next answer."""
    scene.until_ready()
    node, _ = nodes.with_lane(scene.random)
    node.link.stall()
    scene.freeze_pauses_s.append(scene.until_answered())
    node.link.resume()


FAULTS: Final[Mapping[str, NodeFault]] = {
    "kill": kill_lane,
    "freeze": freeze_lane,
    "kill-node": kill_node,
    "half-open": cut_link,
}
