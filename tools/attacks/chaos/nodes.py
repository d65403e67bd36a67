"""Three nodes on this machine: an agent each, behind a link that can die without being closed."""

import os
import re
import signal
import subprocess
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Final

import psutil

from heddle.hosts.nodes.address import Address
from heddle.hosts.nodes.secret import write_secret
from tests.helpers.stalling_proxy import StallingProxy
from tools.attacks.chaos.lanes import lanes_below
from tools.attacks.ground import heddle_command

NAMES: Final = ("north", "east", "south")
END_S_MAX: Final = 20.0
LANE_S_MAX: Final = 60.0
PAUSE_S: Final = 0.05


class Node:
    """One node: its agent, and the proxy that stands for its link."""

    def __init__(self, name: str, secret_file: Path, log: Path) -> None:
        self.name = name
        self._secret_file, self._log = secret_file, log
        self._process, address = self._start()
        self.link = StallingProxy(address)

    def lanes(self) -> dict[str, psutil.Process]:
        """Return its lanes that run now, by name."""
        return {} if self._process.poll() is not None else lanes_below(self._process.pid)

    def kill(self) -> None:
        """Kill the agent: its lanes end by themselves."""
        self._process.kill()
        self._process.wait()

    def start_again(self) -> None:
        """Start another agent, which is reached at the same address as the one before."""
        self._process, self.link.target = self._start()
        self.link.resume()

    def close(self) -> None:
        """End the agent and its link."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(END_S_MAX)
        finally:
            self._process.kill()
            self._process.wait()
            self.link.__exit__()

    def _start(self) -> tuple["subprocess.Popen[str]", Address]:
        words = ("--listen", "127.0.0.1:0", "--cluster-secret-file", self._secret_file)
        with self._log.open("a") as log:
            process = subprocess.Popen(
                heddle_command("agent", *words, "--name", self.name),
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                text=True,
            )
        assert process.stdout is not None
        with process.stdout:
            found = re.search(r"listens at (\S+)", process.stdout.readline())
        assert found, f"the agent of {self.name} did not listen: {self._log.read_text()[-500:]}"
        return process, Address.of(found[1], "agent")


class Nodes:
    """The nodes of one cluster."""

    def __init__(self, folder: Path) -> None:
        secret_file = folder / "secret"
        write_secret(secret_file)
        with ExitStack() as started:
            self.nodes = []
            for name in NAMES:
                self.nodes.append(Node(name, secret_file, folder / f"{name}.log"))
                started.callback(self.nodes[-1].close)
            self._ending = started.pop_all()
        addresses = ",".join(str(node.link.address) for node in self.nodes)
        self.options = ("--agents", addresses, "--cluster-secret-file", str(secret_file))

    def close(self) -> None:
        """End all nodes."""
        self._ending.close()

    def with_lane(self, drawn: Random) -> tuple[Node, psutil.Process]:
        """Return one of the nodes that have an LLM lane, and the lane's process.

        Raises: TimeoutError: no node gets one.
        """
        pause, until_s = threading.Event(), time.perf_counter() + LANE_S_MAX
        while time.perf_counter() < until_s:
            found = [(node, lane) for node in self.nodes for lane in node.lanes().values()]
            if found:
                return drawn.choice(found)
            pause.wait(PAUSE_S)
        raise TimeoutError(f"no node has a lane after {LANE_S_MAX:g} s")
