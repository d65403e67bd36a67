"""What is broken: each function strikes a server once, and leaves one that answers."""

import signal
import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Final
from urllib.parse import urlsplit

import psutil

from tools.attacks.chaos.campaign import Fault
from tools.attacks.chaos.lanes import lanes_of
from tools.attacks.chaos.scene import RECOVER_S_MAX, Scene
from tools.attacks.exchange import JSON, Request, wire

EXIT_LANE: Final = 4  # docs/guide/serving.md, Stopping
SLOW_CLIENTS: Final = 40
SLOW_S: Final = 0.3
STORM_S_MAX: Final = 120.0
SPILL_BYTES: Final = 1 << 16
HALF_HEAD: Final = b"POST /v1/ask HTTP/1.1\r\nHost: 127.0"
HALF_BODY: Final = (
    b"POST /v1/ask HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: 1000\r\n\r\n{"
)


def kill_lane(scene: Scene) -> None:
    """SIGKILL one lane."""
    scene.kill_pauses_s.append(_hit(scene, signal.SIGKILL))


def freeze_lane(scene: Scene) -> None:
    """SIGSTOP one lane: it lives, and says nothing."""
    scene.freeze_pauses_s.append(_hit(scene, signal.SIGSTOP))


def storm(scene: Scene) -> None:
    """SIGKILL every lane as soon as it is there, until the server gives up and ends."""
    scene.ledger.server_stops(time.perf_counter())
    until_s = time.perf_counter() + STORM_S_MAX
    killed: set[int] = set()
    while scene.server.is_alive and time.perf_counter() < until_s:
        with suppress(psutil.NoSuchProcess):
            for lane in lanes_of(scene.server).values():
                if lane.pid not in killed:
                    killed.add(lane.pid)
                    lane.kill()
    scene.ended(scene.server.ended(), EXIT_LANE)
    scene.start_again()


def stop_under_load(scene: Scene) -> None:
    """SIGTERM while requests are under way: all of them end within the grace."""
    scene.stopped(0)
    scene.start_again()


def kill_server(scene: Scene) -> None:
    """SIGKILL the server: its lanes end, and the next one has every confirmed document."""
    lanes = lanes_of(scene.server)
    scene.ledger.server_stops(time.perf_counter())
    scene.ledger.server_killed(time.perf_counter())
    scene.server.kill()
    scene.ledger.server_killed(time.perf_counter())
    _, left = psutil.wait_procs(list(lanes.values()), timeout=10)
    for lane in left:
        scene.ledger.wrong(f"lane {lane.pid} outlives its server")
        lane.kill()
    scene.start_again()


def slow_clients(scene: Scene) -> None:
    """Half heads, half bodies, and streams that their readers leave."""
    url = urlsplit(scene.server.url)
    with ExitStack() as opened:
        for number in range(SLOW_CLIENTS):
            slow = socket.create_connection((url.hostname, url.port), RECOVER_S_MAX)
            opened.enter_context(slow)
            slow.sendall((HALF_HEAD, HALF_BODY, _stream(scene))[number % 3])
        took_s = scene.until_answered()
    if took_s >= RECOVER_S_MAX:
        scene.ledger.wrong("slow clients keep the others out")


def corrupt_files(scene: Scene) -> None:
    """Damage the index and the chunk KV of a stopped server: the next one makes them anew."""
    scene.stopped(0)
    for path in scene.derived_files:
        content = bytearray(path.read_bytes())
        damage = scene.random.choice((_flipped, _halved, _emptied))
        path.write_bytes(damage(content, scene.random.randrange(len(content) or 1)))
    scene.start_again()


def fill_disk(scene: Scene) -> None:
    """Fill the disk of the corpus: changes are put off, searches go on, and it ends with space.

    Needs a corpus on a small disk of its own.
    """
    spill = scene.server.corpus / "spill"
    with suppress(OSError), spill.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(SPILL_BYTES))
    text = {"id": "big", "text": "A long log of the harbour. " * 4_000}
    reply = scene.server.ask(Request.of_json("/v1/documents", text))
    if reply.status not in (503, 507) or "retry-after" not in reply.headers:
        scene.ledger.wrong(f"a full disk is {reply.status}: {reply.body[:300]!r}")
    scene.check_answers()
    spill.unlink()
    reply = scene.server.ask(Request.of_json("/v1/documents", text))
    if not reply.is_accepted:
        scene.ledger.wrong(f"with space again it is {reply.status}: {reply.body[:300]!r}")


def _hit(scene: Scene, signal_number: signal.Signals) -> float:
    """Signal one lane, and return the pause until the next answer [s]."""
    lanes = lanes_of(scene.server)
    if not lanes:
        scene.ledger.wrong("the server has no lanes")
        return RECOVER_S_MAX
    name = scene.random.choice(sorted(lanes))
    lanes[name].send_signal(signal_number)
    return scene.until_answered()


def _stream(scene: Scene) -> bytes:
    body = b'{"question": "rock", "workflow": "oneshot", "max_tokens": 64, "stream": true}'
    return wire(Request("POST", "/v1/ask", body, JSON), urlsplit(scene.server.url).netloc)


def _flipped(content: bytearray, at: int) -> bytes:
    if content:
        content[at] ^= 0xFF
    return bytes(content)


def _halved(content: bytearray, _: int) -> bytes:
    return bytes(content[: len(content) // 2])


def _emptied(_content: bytearray, _: int) -> bytes:
    return b""


FAULTS: Final[Mapping[str, Fault]] = {
    "kill": kill_lane,
    "freeze": freeze_lane,
    "storm": storm,
    "stop": stop_under_load,
    "kill-server": kill_server,
    "slow-clients": slow_clients,
    "corrupt": corrupt_files,
    "full-disk": fill_disk,
}
