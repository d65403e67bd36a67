"""What comes out of a lane's port, and whether its process is there."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from heddle.core.frames import TERMINAL, Event, Frame
from heddle.hosts.process_port import ProcessPort

PATIENCE_S: Final = 30.0


class PortReader:
    """Collects what a port delivers and waits for it without sleeping."""

    def __init__(self, port: ProcessPort) -> None:
        self.port = port
        self.frames: list[Frame] = []
        self._arrived = threading.Condition()
        port.subscribe(self._on_wake)

    def _on_wake(self) -> None:
        with self._arrived:
            self._arrived.notify_all()

    def until(self, condition: Callable[[list[Event]], bool]) -> list[Event]:
        deadline_s = time.monotonic() + PATIENCE_S
        with self._arrived:
            while True:
                self.frames += self.port.frames()
                events = [event for frame in self.frames for event in frame.events]
                if condition(events):
                    return events
                left_s = deadline_s - time.monotonic()
                assert left_s > 0, f"waited too long; got {events}"
                self._arrived.wait(left_s)

    def endings(self, *task_ids: int) -> list[Event]:
        """Wait for and return the one terminal event of each of these tasks."""

        def all_ended(events: list[Event]) -> bool:
            ended = [event.task_id for event in events if isinstance(event, TERMINAL)]
            return set(task_ids) <= set(ended)

        events = self.until(all_ended)
        found = [e for e in events if isinstance(e, TERMINAL) and e.task_id in task_ids]
        assert len(found) == len(task_ids), f"more than one ending: {found}"
        return sorted(found, key=lambda event: task_ids.index(event.task_id))


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
