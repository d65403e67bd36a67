"""What can go wrong at a remote model, in Heddle's own words: no text of the other side."""

from enum import Enum
from typing import Final


class Trouble(Enum):
    """The kinds of failure; each decides whether another try may help."""

    ABSENT = "absent"  # it can't be reached
    CUT = "cut"  # the connection ended before the answer did
    BUSY = "busy"  # it has too much to do
    FAILED = "failed"  # it reports an error of its own
    NO_API = "no_api"  # something else answers at this address
    REFUSED = "refused"  # it doesn't take this request
    TOO_LONG = "too_long"  # the prompt and its answer don't fit into the model's context
    NO_MODEL = "no_model"
    NO_ENTRY = "no_entry"  # the key is missing or wrong
    MOVED = "moved"  # it redirects
    GARBAGE = "garbage"  # its answer can't be read
    SILENT = "silent"  # it sends nothing any more
    LATE = "late"  # the time of the request is over


MAY_PASS: Final = frozenset({Trouble.ABSENT, Trouble.CUT, Trouble.BUSY, Trouble.FAILED})


class RemoteProblem(Exception):
    """One try has failed.

    Args:
        trouble: the kind.
        words: what happened, to stand behind the server's address.
        retry_after_s: when the other side wants the next try; None = it didn't say [s].
        field: the field of the request that the other side doesn't take; empty = it didn't say.
    """

    def __init__(
        self,
        trouble: Trouble,
        words: str,
        *,
        retry_after_s: float | None = None,
        field: str = "",
    ) -> None:
        super().__init__(words)
        self.trouble = trouble
        self.words = words
        self.retry_after_s = retry_after_s
        self.field = field

    @property
    def is_callers(self) -> bool:
        """Whether the caller has to change the request."""
        return self.trouble in (Trouble.REFUSED, Trouble.TOO_LONG)

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed at another time, or at another server."""
        return self.trouble in MAY_PASS
