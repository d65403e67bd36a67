"""A node of a Ray cluster on this machine: the head, which can be lost, and the agents there."""

import subprocess
import threading
import time
from contextlib import suppress
from typing import Final

import psutil

from benchmarks.support.ray_head import RayHead
from tools.attacks.chaos.lanes import lanes_below
from tools.attacks.chaos.nodes import LANE_S_MAX, PAUSE_S
from tools.attacks.chaos.scene import Scene
from tools.attacks.ground import heddle_command

AGENT: Final = "heddle.hosts.nodes.held_agent"
COMMAND_S_MAX: Final = 60.0
REFUSED: Final = 2  # exit code of a command whose input is refused
NO_HEAD: Final = "ray: no head of a cluster answers at"


class RayNode:
    """The one node of a cluster; agents that Ray has started there are no children of its head."""

    def __init__(self) -> None:
        self.head = RayHead()

    @property
    def options(self) -> tuple[str, ...]:
        """What servers whose LLM lanes stand here are started with."""
        return ("--ray", self.head.address)

    def close(self) -> None:
        """End the head."""
        self.head.close()

    def lane(self) -> psutil.Process:
        """Return the process of a lane.

        Raises: TimeoutError: none comes.
        """
        pause, until_s = threading.Event(), time.perf_counter() + LANE_S_MAX
        while time.perf_counter() < until_s:
            for agent in self._agents():
                with suppress(psutil.NoSuchProcess):
                    for lane in lanes_below(agent.pid).values():
                        return lane
            pause.wait(PAUSE_S)
        raise TimeoutError(f"the node has no lane after {LANE_S_MAX:g} s")

    def check_refused(self, scene: Scene) -> None:
        """See that another server is refused, as no head is there to start an agent for it."""
        done = self._command(scene, "serve", scene.server.corpus, "--port", 0)
        if done.returncode != REFUSED or NO_HEAD not in done.stderr:
            scene.ledger.wrong(f"without a head: {done.returncode} {done.stderr[-500:]!r}")

    def check_placed(self, scene: Scene) -> None:
        """See that a head starts agents for others: a plan names the node."""
        done = self._command(scene, "doctor", "--index", scene.server.corpus)
        if "llm on " not in done.stdout:  # its exit code is also about texts that clients just put
            scene.ledger.wrong(f"with a head again: {done.returncode} {done.stdout[-500:]!r}")

    def _command(self, scene: Scene, *words: object) -> "subprocess.CompletedProcess[str]":
        model = ("--model", scene.ground.model, "--dtype", "float32")
        command = heddle_command(*words, *model, *self.options)
        return subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_S_MAX, check=False
        )

    def _agents(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                is_agent = any(AGENT in word for word in process.cmdline())
                if is_agent and process.environ().get("HOME") == self.head.folder:
                    found.append(process)
        return found
