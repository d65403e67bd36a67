"""An agent that belongs to one server: it leaves when that lets go of it, or never takes hold."""

import base64
import os
import sys
from typing import Final

from heddle.core.printing.log_lines import log_lines
from heddle.hosts.nodes.address import Address
from heddle.hosts.nodes.agent import Agent

HOLD_S_MAX: Final = 60.0  # from the start to the server's hold


def main(name: str, host: str) -> None:
    """Run an agent at any free port of `host`; stdin: the secret, stdout: the port."""
    secret = base64.b64decode(sys.stdin.readline())
    with Agent(name, Address(host, 0), secret) as agent:
        print(agent.address.port, flush=True)
        _leave_pipes()
        log_lines(f"%(levelname)s %(name)s (node {name}): %(message)s")
        agent.wait_released(HOLD_S_MAX)


def _leave_pipes() -> None:
    """Let go of the starter's pipes, which ends with it."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(nowhere, fd)
    os.close(nowhere)
