"""Every error Heddle raises on purpose.

* HeddleError
  x ConfigError       the operator asked for something impossible; raised at start-up (exit code 2)
  x InputError        a file, question or document can't be used as it is     (exit 2, HTTP 400)
  x WorkflowError     the user's workflow is malformed                        (exit 2, HTTP 400)
  x Busy              the queues are full; carries the predicted wait         (HTTP 503)
  x DeadlineExceeded  the request's time ran out before its answer            (HTTP 504)
  x Cancelled         the caller took the request back
  x EngineError       an engine failed; carries the engine and the requests   (exit 1, HTTP 500)
  x StorageError      the disk refused: read-only, corrupt                    (exit 1, HTTP 500)
      x DiskFull      there is no room; carries when to come back             (exit 1, HTTP 507)
      x Unreachable   the database is away; carries when to come back         (exit 1, HTTP 503)
  x InternalError     an invariant broke: our bug, never the caller's fault   (HTTP 500)
"""

from typing import Final

TOO_LONG: Final = "context_length_exceeded"
CONTEXT_LIMIT: Final = "(context_tokens_max)"
"""Stands in an engine's words where it refuses a prompt as too long: engines report words alone."""


class HeddleError(Exception):
    """The root of the tree above."""


class ConfigError(HeddleError, ValueError):
    """The operator asked for something impossible."""


class InputError(HeddleError, ValueError):
    """What the caller handed in can't be used; the message names the field and the fix.

    Args:
        message: for people.
        param: the field, for programs; empty = the message alone names it.
        code: the kind of the problem in OpenAI's words, such as `TOO_LONG`; empty = none of them.
    """

    def __init__(self, message: str = "", *, param: str = "", code: str = "") -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class WorkflowError(HeddleError, ValueError):
    """The workflow is malformed; the message names the node."""


class Busy(HeddleError):
    """The request was not admitted and nothing was started. (WindVE §IV-A)"""

    def __init__(self, message: str, *, wait_s: float) -> None:
        super().__init__(f"{message}; predicted wait {wait_s:.1f} s")
        self.wait_s = wait_s


class DeadlineExceeded(HeddleError):
    """The request's deadline passed before its answer."""


class Cancelled(HeddleError):
    """The caller took the request back."""


class EngineError(HeddleError):
    """An engine failed while it worked for these requests."""

    def __init__(self, message: str, *, engine: str, request_ids: tuple[int, ...]) -> None:
        requests = f" (requests {', '.join(map(str, request_ids))})" if request_ids else ""
        super().__init__(f"{engine}: {message}{requests}")
        self.engine = engine
        self.request_ids = request_ids


class StorageError(HeddleError, OSError):
    """The disk refused a read or a write; nothing that was committed is lost."""


class DiskFull(StorageError):
    """The disk has no room; the same request works once somebody has made some.

    `wait_s` is when it is worth another try [s].
    """

    wait_s = 60.0


class Unreachable(StorageError):
    """The corpus's database can't be reached; the same request works once it is back.

    `wait_s` is when it is worth another try [s].
    """

    wait_s = 5.0


class InternalError(HeddleError):
    """An invariant broke. This is a bug in Heddle: please report it."""
