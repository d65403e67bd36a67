"""A process that computes or waits for a core differs from one that is stopped or asleep."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from heddle.hosts.process_progress import ProcessProgress

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc")
WAIT_S = 20.0


@contextmanager
def child(code: str) -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", f"print(flush=True)\n{code}"], stdout=-1)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def reaches(progress: ProcessProgress, seconds: float) -> bool:
    end_s = time.monotonic() + WAIT_S
    while time.monotonic() < end_s:
        if progress.seconds() >= seconds:
            return True
        time.sleep(0.01)
    return False


def test_one_that_computes_makes_progress() -> None:
    with child("while True: pass") as pid:
        progress = ProcessProgress(pid)
        assert reaches(progress, 0.3)
        progress.mark()
        assert progress.seconds() < 0.3


def test_one_that_waits_for_the_only_core_makes_progress() -> None:
    core = min(os.sched_getaffinity(0))
    pinned = f"import os; os.sched_setaffinity(0, {{{core}}})\nos.nice(19)\nwhile True: pass"
    with child(pinned.replace("os.nice(19)\n", "")), child(pinned) as starved:
        progress = ProcessProgress(starved)
        assert reaches(progress, 0.5), "it computes little, and stands in the queue for the rest"


def test_one_that_sleeps_or_is_stopped_makes_none() -> None:
    with child("import time; time.sleep(60)") as pid:
        asleep = ProcessProgress(pid)
        time.sleep(0.3)
        assert asleep.seconds() < 0.1
    with child("while True: pass") as pid:
        stopped = ProcessProgress(pid)
        assert reaches(stopped, 0.1)
        os.kill(pid, signal.SIGSTOP)
        os.waitpid(pid, os.WUNTRACED)
        assert stopped.seconds() == 0.0


def test_one_that_is_gone_makes_none() -> None:
    with child("while True: pass") as pid:
        progress = ProcessProgress(pid)
    assert progress.seconds() == 0.0
