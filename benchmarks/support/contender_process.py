"""A contender in a process of its own, which answers lines on its standard input."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass
class ContenderProcess:
    """A module of `benchmarks.contenders` that has printed its port."""

    process: "subprocess.Popen[str]"
    port: int

    def ask(self, line: str) -> str:
        """Send a line and return the line that answers it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(line, file=self.process.stdin, flush=True)
        return self.process.stdout.readline()

    def cpu_s(self) -> float:
        """Return the CPU time that it has used, as its `cpu_clock` says [s]."""
        return float(self.ask("cpu"))


@contextmanager
def contender_process(module: str, *arguments: str) -> Iterator[ContenderProcess]:
    """Start a module of `benchmarks.contenders`, wait for its port, and end it at last."""
    command = [sys.executable, "-m", f"benchmarks.contenders.{module}", *arguments]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)
    assert process.stdout is not None
    try:
        yield ContenderProcess(process, int(process.stdout.readline()))
    finally:
        process.terminate()
        process.communicate()
