"""The only module of the runtime that reads real time."""

import time


class SystemClock:
    """The system's monotonic clock."""

    def now_s(self) -> float:
        """Return the monotonic time [s]."""
        return time.monotonic()
