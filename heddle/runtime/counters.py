"""What a runtime has seen, for `/health` and tests."""

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Counts since the start."""

    frames: int = 0
    frames_dropped: int = 0
    events_dropped: int = 0
    retries: int = 0
    finished: int = 0
    failed: int = 0
