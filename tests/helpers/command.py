"""The `heddle` command in a process of its own."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Sequence

import psutil

from tests.helpers.server_state import eventually


class Command:
    """A running `heddle` and its output so far."""

    def __init__(self, arguments: Sequence[object]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "heddle.cli.main", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def said(self) -> str:
        return "".join(self.lines)

    def until(self, pattern: str) -> str:
        """Wait for something to be said, and return the match."""
        eventually(lambda: bool(re.search(pattern, self.said)) or self.process.poll() is not None)
        found = re.search(pattern, self.said)
        assert found, self.said
        return found.group()

    def end(self, signal_number: int | None = None) -> int:
        """Send a signal, wait, and see that no process is left over."""
        is_there = self.process.poll() is None
        lanes = psutil.Process(self.process.pid).children(recursive=True) if is_there else []
        if signal_number is not None:
            self.process.send_signal(signal_number)
        code = self.process.wait(timeout=60)
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        eventually(lambda: not any(lane.is_running() for lane in lanes), within_s=10)
        assert "Traceback" not in self.said
        return code

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))
