"""The clock by which an engine over an encoder measures its steps."""

import time


class PerfClock:
    """The process's monotonic clock."""

    def now_s(self) -> float:
        """Return the time since an arbitrary start [s]."""
        return time.perf_counter()
