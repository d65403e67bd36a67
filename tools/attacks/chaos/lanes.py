"""The lane processes of a server, by name."""

import psutil

from tools.attacks.served import Served

ENTRY = "heddle.hosts.lane_main"


def lanes_of(server: Served) -> dict[str, psutil.Process]:
    """Return the lanes that run now; one that is about to start or has ended is left out."""
    return lanes_below(server.process.pid)


def lanes_below(pid: int) -> dict[str, psutil.Process]:
    """Return the lanes that a process has started and that run now."""
    found = {}
    for process in psutil.Process(pid).children(recursive=True):
        if name := lane_name(_command_line(process)):
            found[name] = process
    return found


def lane_name(words: list[str]) -> str:
    """Return the lane's name in the command line of its process; "" = it is no lane."""
    entry = next((n for n, word in enumerate(words) if ENTRY in word), None)
    # After the entry come the descriptor of its socket and its name.
    return words[entry + 2] if entry is not None and len(words) > entry + 2 else ""


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:
        return []
