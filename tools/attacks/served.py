"""A `heddle serve` process under attack, as its operator sees it."""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil

from tools.attacks.configuration import Configuration
from tools.attacks.exchange import Reply, Request, exchange
from tools.attacks.ground import Ground, authorization, heddle_command

START_S_MAX: Final = 120.0
END_S_MAX: Final = 60.0
PAUSE_S: Final = 0.05
URL: Final = re.compile(r"^ask it:  curl -N (http://127\.0\.0\.1:\d+)/", re.MULTILINE)


class ServedError(Exception):
    """A server didn't start or didn't end; the message has the end of its log."""


class Served:
    """A running server.

    Attributes:
        configuration: how it was started.
        corpus: its directory.
        url: where it is reached.
        headers: headers that its clients must send.
        start_s: seconds from its start until it could be asked.
    """

    def __init__(self, ground: Ground, configuration: Configuration, corpus: Path) -> None:
        self.configuration = configuration
        self.corpus = corpus
        self.headers = authorization(ground.key if configuration.needs_key else "")
        begun_s = time.perf_counter()
        self._log = corpus.with_name(f"{corpus.name}-{begun_s}.log")  # a corpus has several servers
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                heddle_command("serve", corpus, "--port", 0, *_options(ground, configuration)),
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        try:
            self.url = self._greeted()
        except ServedError:
            self.kill()
            raise
        self.start_s = time.perf_counter() - begun_s

    @property
    def log(self) -> str:
        """All lines that the process has written so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self.process.poll() is None

    def processes(self) -> list[psutil.Process]:
        """Return its own process and those of its lanes."""
        own = psutil.Process(self.process.pid)
        return [own, *own.children(recursive=True)]

    def ask(self, request: Request, timeout_s: float = 60.0) -> Reply:
        """Send a request on a connection of its own; raises as `exchange` does."""
        return exchange(self.url, request.with_headers(self.headers), timeout_s)

    def health(self) -> dict[str, Any]:
        """Return the page /health; raises as `exchange` does."""
        return self.ask(Request("GET", "/health")).json()

    def lane_restarts(self) -> int:
        """Return how often lanes were started again."""
        return sum(lane["restarts"] for lane in self.health()["lanes"].values())

    def stop(self, signal_number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code.

        Raises:
            ServedError: it didn't end within 60 s; it is killed then.
        """
        self.process.send_signal(signal_number)
        return self.ended()

    def ended(self) -> int:
        """Wait for its end and return the exit code; raises as `stop` does."""
        try:
            return self.process.wait(END_S_MAX)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise ServedError(f"it didn't end within {END_S_MAX:g} s: {self.log[-500:]}") from error

    def kill(self) -> None:
        """Kill its process; its lanes end with it."""
        self.process.kill()
        self.process.wait()

    def _greeted(self) -> str:
        pause = threading.Event()
        until_s = time.perf_counter() + START_S_MAX
        while time.perf_counter() < until_s and self.is_alive:
            if found := URL.search(self.log):
                return found[1]
            pause.wait(PAUSE_S)
        raise ServedError(f"{self.configuration.name} didn't start: {self.log[-2_000:]}")


@contextmanager
def served(
    ground: Ground, configuration: Configuration, corpus: Path | None = None
) -> Iterator[Served]:
    """Start a server on a fresh corpus, or on the one given, and kill it at the end."""
    server = Served(ground, configuration, corpus or ground.corpus(configuration.index_kind))
    try:
        yield server
    finally:
        if server.is_alive:
            server.kill()


def _options(ground: Ground, configuration: Configuration) -> Iterator[object]:
    yield from configuration.options
    if configuration.has_model:
        yield from ("--model", ground.model, "--dtype", "float32")
    if configuration.takes_changes:
        yield "--allow-changes"
    if configuration.needs_key:
        yield from ("--api-key-file", ground.key_file)
