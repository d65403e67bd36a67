"""What a fault can reach: the server, its clients, and how to start it again."""

import random
import signal
import threading
import time
from http.client import HTTPException
from pathlib import Path
from typing import Final

from tools.attacks.chaos.crowd import Crowd
from tools.attacks.chaos.ledger import Ledger
from tools.attacks.exchange import Reply, Request
from tools.attacks.ground import Ground
from tools.attacks.served import Served, ServedError

RECOVER_S_MAX: Final = 120.0
PROBE_PAUSE_S: Final = 0.05
PROBE: Final = Request.of_json(
    "/v1/ask",
    {"question": "Who keeps the lighthouse on Rock 3?", "workflow": "oneshot", "max_tokens": 4},
)
DOCUMENTS: Final = "corpus.sqlite"  # and its log
KEEPER: Final = "Clara"  # of Rock 3, in tests/helpers/tiny_server.py
SEARCH: Final = Request.of_json(
    "/v1/search", {"query": "Who keeps the lighthouse on Rock 3?", "topk": 3}
)


class Scene:
    """One configuration under attack.

    Attributes:
        ground: its corpus and its model.
        ledger: of all its requests.
        crowd: its clients; None before they come.
        random: draws what is hit.
        exits: how often the server ended with the right code, and with another.
        kill_pauses_s, freeze_pauses_s: from a lane's fault to the next answer [s].
        head_pauses_s: from the loss of Ray's head to the next answer [s].
    """

    def __init__(self, ground: Ground, server: Served, ledger: Ledger, seed: int) -> None:
        self.ground = ground
        self.ledger = ledger
        self.random = random.Random(seed)
        self.crowd: Crowd | None = None
        self.exits: dict[bool, int] = {True: 0, False: 0}
        self.kill_pauses_s: list[float] = []
        self.freeze_pauses_s: list[float] = []
        self.head_pauses_s: list[float] = []
        self._server = server

    @property
    def server(self) -> Served:
        """The server that runs now."""
        return self._server

    def until_answered(self) -> float:
        """Ask until an answer comes, and return how long that took [s]."""
        begun_s = time.perf_counter()
        pause = threading.Event()
        while time.perf_counter() - begun_s < RECOVER_S_MAX:
            reply = self._probed()
            if reply is not None and reply.is_accepted:
                return time.perf_counter() - begun_s
            pause.wait(PROBE_PAUSE_S)
        self.ledger.wrong(f"no answer within {RECOVER_S_MAX:g} s")
        return RECOVER_S_MAX

    def until_ready(self) -> None:
        """Wait until every lane is there again, so that a fault finds another that can go on."""
        until_s, pause = time.perf_counter() + RECOVER_S_MAX, threading.Event()
        while time.perf_counter() < until_s:
            lanes = self.server.health()["lanes"].values()
            if all(lane["state"] == "ready" for lane in lanes):
                return
            pause.wait(PROBE_PAUSE_S)
        self.ledger.wrong(f"a lane is missing after {RECOVER_S_MAX:g} s")

    def until_noticed(self, restarts: int) -> None:
        """Wait until the server has counted more restarts of lanes than these.

        Before, it says that the lane is ready, and the next fault would find no other.
        """
        until_s, pause = time.perf_counter() + RECOVER_S_MAX, threading.Event()
        while time.perf_counter() < until_s:
            if self.server.lane_restarts() > restarts:
                return
            pause.wait(PROBE_PAUSE_S)
        self.ledger.wrong(f"a lane was lost, and not noticed within {RECOVER_S_MAX:g} s")

    def ended(self, code: int, *right: int) -> None:
        """Note how the server ended."""
        self.exits[code in right] += 1
        if code not in right:
            self.ledger.wrong(f"it ended with {code} and not {right}: {self.server.log[-500:]}")

    def stopped(self, *right: int, signal_number: int = signal.SIGTERM) -> None:
        """Stop the server with a signal and note its exit code."""
        self.ledger.server_stops(time.perf_counter())
        try:
            self.ended(self.server.stop(signal_number), *right)
        except ServedError as error:
            self.exits[False] += 1
            self.ledger.wrong(str(error))

    def start_again(self) -> None:
        """Start a server on the same corpus, and see that it answers and has lost nothing."""
        self._server = Served(self.ground, self.server.configuration, self.server.corpus)
        self.ledger.server_starts()
        if self.crowd is not None:
            self.crowd.server = self._server
        self.until_answered()
        self.check_answers()

    def check_answers(self) -> None:
        """See that a search finds the right passage, and each confirmed document still is there."""
        found = self.server.ask(SEARCH)
        if not found.is_accepted or KEEPER.encode() not in found.body:
            self.ledger.wrong(f"a search finds something else: {found.status} {found.body[:300]!r}")
        for name in self._some_confirmed():
            query = {"query": f"The boat {name} sails", "topk": 50, "hybrid": True}
            reply = self.server.ask(Request.of_json("/v1/search", query))
            if f'"{name}"'.encode() not in reply.body:
                self.ledger.lose(f"the document {name} was confirmed and is gone")

    @property
    def derived_files(self) -> list[Path]:
        """Files that are made from the table of documents: the index, and the KV of chunks."""
        found = sorted(path for path in self.server.corpus.rglob("*") if path.is_file())
        return [path for path in found if not path.name.startswith(DOCUMENTS)]

    def _some_confirmed(self, count: int = 5) -> list[str]:
        known = [] if self.crowd is None else sorted(self.crowd.confirmed)
        return self.random.sample(known, min(count, len(known)))

    def _probed(self) -> Reply | None:
        try:
            return self.server.ask(PROBE, timeout_s=RECOVER_S_MAX)
        except (OSError, HTTPException):
            return None
