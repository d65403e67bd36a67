"""Credits: how much more an engine may be sent. Mirrored in the runtime, so Busy is immediate."""

from dataclasses import dataclass

from heddle.core.errors import InternalError


@dataclass(slots=True)
class Credits:
    """A bounded count of rows in flight on one engine.

    Mutates: take and give_back change `used`; 0 <= used <= total always holds.
    """

    total: int
    used: int = 0

    @property
    def free(self) -> int:
        """Rows that may still be sent."""
        return self.total - self.used

    def take(self, rows: int) -> None:
        """Reserve rows; the caller has checked `free`."""
        if rows > self.free:
            raise InternalError(f"took {rows} credits of {self.free} free")
        self.used += rows

    def give_back(self, rows: int) -> None:
        """Return rows on a task's terminal event."""
        if rows > self.used:
            raise InternalError(f"gave back {rows} credits of {self.used} used")
        self.used -= rows
