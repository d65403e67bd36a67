"""A server that is stopped while it answers: every request gets its end."""

import json
import signal
import threading
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest

from heddle.runtime.supervision import LaneLimits
from tests.helpers.command import Command
from tests.helpers.server_state import eventually

HELD = """
import pathlib, time
from heddle import RAGraph

def wait(query: str) -> str:
    pathlib.Path({begun!r}).touch()
    for _ in range(200):
        if pathlib.Path({may_go!r}).exists():
            break
        time.sleep(0.05)
    return "well"

held = RAGraph("held").add_tool("wait", wait, ["query"], output="answer")
"""


class Asked(threading.Thread):
    """A streamed question, from a thread of its own."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self.events: list[tuple[str, dict]] = []
        self.start()

    def run(self) -> None:
        body = {"question": "why", "workflow": "held", "stream": True}
        found = httpx.post(f"{self._url}/v1/ask", json=body, timeout=60)
        for event in found.text.strip().split("\n\n"):
            kind, data = event.split("\n")
            self.events.append(
                (kind.removeprefix("event: "), json.loads(data.removeprefix("data: ")))
            )


@pytest.fixture
def served(start, corpus: Path, tmp_path: Path):
    """Serve with a workflow that waits for a file, and return how to ask it and to let it go on."""
    begun, may_go = tmp_path / "begun", tmp_path / "may-go"
    workflow = tmp_path / "mine.py"
    workflow.write_text(HELD.format(begun=str(begun), may_go=str(may_go)))

    def serve(*settings: object) -> tuple[Command, str, Asked]:
        own = ("--workflow", f"{workflow}:held", "--port", 0, *settings)
        command = start("serve", corpus, *own)
        url = command.until(r"http://127\.0\.0\.1:\d+")
        command.until("Ctrl-C")
        asked = Asked(url)
        eventually(begun.exists)
        return command, url, asked

    yield serve
    may_go.touch()


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGHUP])
def test_requests_under_way_end_and_the_rest_is_told(served, tmp_path: Path, stop: signal.Signals):
    command, url, asked = served()
    command.process.send_signal(stop)
    command.until("stopping: 1 under way, with 30 s to end")
    health = httpx.get(f"{url}/health")
    assert health.status_code == 503
    assert health.json()["status"] == "draining"
    assert health.json()["under_way"] == 1
    refused = httpx.post(f"{url}/v1/ask", json={"question": "why"})
    assert refused.status_code == 503
    assert refused.json()["error"]["type"] == "Stopping"
    (tmp_path / "may-go").touch()
    assert command.end() == 0
    asked.join()
    assert asked.events[-1][0] == "answer"
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/health")


def test_what_takes_longer_than_the_grace_is_cut_told_and_in_the_exit_code(served):
    command, _, asked = served("--grace", "0.2")
    assert command.end(signal.SIGTERM) == 3
    asked.join()
    kind, data = asked.events[-1]
    assert (kind, data["status"], data["error"]["type"]) == ("error", 503, "Stopping")
    assert "stopping: 1 cut" in command.said


def test_a_second_signal_does_not_wait(served):
    command, _, asked = served()
    command.process.send_signal(signal.SIGINT)
    command.until("a second signal ends them")
    assert command.end(signal.SIGINT) == 130
    asked.join()
    assert asked.events[-1][0] == "error"


def test_a_lane_that_dies_too_often_ends_the_server_and_its_exit_code_says_so(start, corpus: Path):
    command = start("serve", corpus, "--port", 0)
    command.until("Ctrl-C")
    server = psutil.Process(command.process.pid)
    killed: set[int] = set()

    def kill_next() -> bool:
        with suppress(psutil.NoSuchProcess):  # it ends meanwhile
            for lane in server.children():
                if lane.pid not in killed:
                    killed.add(lane.pid)
                    lane.kill()
        return command.process.poll() is not None

    eventually(kill_next, within_s=60)
    assert command.end() == 4
    assert "was given up" in command.said
    assert len(killed) > LaneLimits().restarts_max
