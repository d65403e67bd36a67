"""What is lost of a Ray cluster: each function strikes once, and leaves a server that answers.

Ray has started the agent and is not needed afterwards: without its head answers go on, and a
lane is started again. Only another server finds no agents, and is refused with a sentence.
"""

import signal
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from tools.attacks.chaos.ray_node import RayNode
from tools.attacks.chaos.scene import Scene

RayFault: TypeAlias = Callable[[RayNode, Scene], None]


def kill_lane(node: RayNode, scene: Scene) -> None:
    """SIGKILL the LLM lane."""
    node.lane().kill()
    scene.kill_pauses_s.append(scene.until_answered())


def freeze_lane(node: RayNode, scene: Scene) -> None:
    """SIGSTOP the LLM lane."""
    node.lane().send_signal(signal.SIGSTOP)
    scene.freeze_pauses_s.append(scene.until_answered())


def lose_head(node: RayNode, scene: Scene) -> None:
    """SIGKILL the head's processes, and the lane while it is away; then it comes back."""
    _lose(node, scene)
    node.check_refused(scene)
    kill_lane(node, scene)
    node.head.start()
    node.check_placed(scene)


def lose_head_for_long(node: RayNode, scene: Scene) -> None:
    """SIGKILL the head's processes: it stays away until a head is to be lost again."""
    _lose(node, scene)


def _lose(node: RayNode, scene: Scene) -> None:
    if not node.head.is_running:
        node.head.start()
    node.head.kill()
    scene.head_pauses_s.append(scene.until_answered())


FAULTS: Final[Mapping[str, RayFault]] = {
    "kill": kill_lane,
    "freeze": freeze_lane,
    "head": lose_head,
    "head-away": lose_head_for_long,
}
