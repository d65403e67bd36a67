"""Requests end by their deadline, and at once when the caller gives up."""

from dataclasses import dataclass
from typing import Final

from heddle.runtime.events import Answer, RequestEvent, RequestFailed
from heddle.simulator.checks.check import Check
from heddle.simulator.ticket import Ticket

TOLERANCE_S: Final = 1e-9  # sums of times are rounded


@dataclass(slots=True)
class EndCheck(Check):
    """Compares when a request ends with its deadline and with when its caller gave up.

    The runtime takes no virtual time itself, so neither may be missed by any.
    """

    def heard(self, ticket: Ticket, event: RequestEvent, now_s: float) -> None:
        """Look at the clock where a request ends."""
        arrival = ticket.arrival
        if not isinstance(event, Answer | RequestFailed):
            return
        for what, patience_s in (
            ("deadline", arrival.deadline_s),
            ("cancellation", arrival.cancel_after_s),
        ):
            if patience_s is not None and now_s > arrival.at_s + patience_s + TOLERANCE_S:
                late_s = now_s - arrival.at_s - patience_s
                self.complain(f"{ticket} ended {late_s:.6f} s after its {what}")
