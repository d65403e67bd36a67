"""The processes of `heddle bench adapters`: servers by their ports, programs by their lines."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.adapting.setting import Setting

ROOT: Final = Path(__file__).parents[2]
START_S: Final = 300.0
STOP_S: Final = 30.0
LOOK_S: Final = 0.2
QUIET: Final = {
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
SERVE: Final = "from transformers.cli.transformers import main; main()"


@dataclass(slots=True)
class Program:
    """A framework's program that is ready."""

    process: "subprocess.Popen[str]"

    def block(self, arrivals: Sequence[tuple[float, str]], in_flight: int = 0) -> dict[str, Any]:
        """Ask questions at their times [s], or with a number in flight; return what came of it.

        Raises:
            RuntimeError: the program has ended.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        asked = {"arrivals": arrivals, "in_flight": in_flight}
        print(json.dumps(asked), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("a program has ended before its answer; see its words above")
        found: dict[str, Any] = json.loads(line)
        return found


@contextmanager
def program(framework: str, variant: str, setting: Setting) -> Iterator[Program]:
    """Start a framework's program, wait until it is ready, and end it at last.

    Raises:
        RuntimeError: it didn't start.
    """
    arguments = [framework, variant, json.dumps(asdict(setting))]
    with _started("benchmarks.adapting.client", arguments) as process:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"the program {framework} {variant} did not start")
        yield Program(process)


@contextmanager
def heddle_server(corpus: Path, index: Path, nprobe: int) -> Iterator[str]:
    """Serve Heddle over an index; yield its address."""
    arguments = [str(corpus), str(index), str(nprobe)]
    with _started("benchmarks.adapting.heddle_server", arguments) as process:
        assert process.stdout is not None
        url = f"http://127.0.0.1:{int(process.stdout.readline())}"
        _wait(f"{url}/ready", process)
        yield url


@contextmanager
def transformers_server(model: Path, *, batches: bool) -> Iterator[str]:
    """Serve a model by `transformers serve`; yield its address with /v1.

    Args:
        model: its directory.
        batches: whether requests share steps (its continuous batching).
    """
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    way = "--continuous-batching" if batches else "--no-continuous-batching"
    place = ["--port", str(port), "--host", "127.0.0.1"]
    how = ["--dtype", "float32", "--device", "cpu", way, *place]
    command = [sys.executable, "-c", SERVE, "serve", str(model), *how]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **QUIET}, text=True)
    try:
        _wait(f"http://127.0.0.1:{port}/health", process)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        _end(process)


@contextmanager
def _started(module: str, arguments: Sequence[str]) -> "Iterator[subprocess.Popen[str]]":
    command = [sys.executable, "-m", module, *arguments]
    pipe, env = subprocess.PIPE, {**os.environ, **QUIET}
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT, env=env)
    try:
        yield process
    finally:
        _end(process)


def _end(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.communicate(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def _wait(url: str, process: "subprocess.Popen[str]") -> None:
    """Wait until a server answers.

    Raises:
        RuntimeError: it has ended, or takes longer than five minutes.
    """
    until_s = time.monotonic() + START_S
    while time.monotonic() < until_s and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=STOP_S) as response:
                if response.status == 200:
                    return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(LOOK_S)
    raise RuntimeError(f"no server answers at {url}")
