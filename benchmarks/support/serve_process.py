"""`heddle serve` in a process of its own, as an operator starts it."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from heddle.core.errors import InternalError


@dataclass(frozen=True)
class ServeProcess:
    """A server that listens; `url` is without a path."""

    url: str
    pid: int

    def own_bytes(self) -> int:
        """Return the memory of its processes that no file can give back: not its mapped files."""
        whole = psutil.Process(self.pid)
        return sum(_anonymous(p.pid) for p in (whole, *whole.children(recursive=True)))


@contextmanager
def serve_process(corpus: Path, *options: str) -> Iterator[ServeProcess]:
    """Serve a corpus on a free port until the block ends.

    Raises:
        InternalError: it said no address.
    """
    command = (sys.executable, "-m", "heddle.cli.main", "serve", str(corpus), "--port", "0")
    process = subprocess.Popen((*command, *options), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        found = re.search(r"http://[^\s/]+", said)
        if found is None:
            raise InternalError(f"heddle serve said {json.dumps(said)} and no URL")
        yield ServeProcess(found.group(), process.pid)
    finally:
        process.terminate()
        process.communicate()


def _anonymous(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    found = re.search(r"^RssAnon:\s*(\d+) kB$", status, re.MULTILINE)
    assert found is not None, "Linux says how much of a process is anonymous"
    return int(found.group(1)) * 1024
