"""What another program's call says of itself: in a context variable here, in headers over HTTP."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import quote, unquote

from heddle.app.requests.arguments import member_named
from heddle.core.errors import ConfigError, DeadlineExceeded, InputError
from heddle.core.tasks import DEPTH_MAX, NODE_CHARS_MAX, Caller, Priority

RUN: Final = "X-Heddle-Run"
NODE: Final = "X-Heddle-Node"
DEPTH: Final = "X-Heddle-Depth"
DEADLINE: Final = "X-Heddle-Deadline"
PRIORITY: Final = "X-Heddle-Priority"
HEADERS: Final = (RUN, NODE, DEPTH, DEADLINE, PRIORITY)
_ENCODED_MAX: Final = 12 * NODE_CHARS_MAX  # four bytes a character, three signs a byte
_DEPTH_DIGITS: Final = len(str(DEPTH_MAX))


@dataclass(frozen=True, slots=True)
class CallIdentity:
    """Who makes a call, and what its run leaves it.

    Args:
        caller: the run and the node.
        seconds_left: until the run's deadline, when the call is made [s]; None = it has none.
        priority: the run's service class; None = as the call says.
    """

    caller: Caller
    seconds_left: float | None = None
    priority: Priority | None = None

    def headers(self) -> dict[str, str]:
        """Return the headers by which a server learns of it; the node is percent-encoded."""
        caller = self.caller
        found = {RUN: caller.run, DEPTH: str(caller.depth)}
        if caller.node:
            found[NODE] = quote(caller.node, safe="")
        if self.seconds_left is not None:
            found[DEADLINE] = f"{self.seconds_left:.3f}"
        if self.priority is not None:
            found[PRIORITY] = self.priority.name.lower()
        return found

    @classmethod
    def of_headers(cls, headers: Mapping[str, str]) -> Self | None:
        """Read the headers of a request; None = it names no run, and the others mean nothing.

        Raises:
            InputError: one of them can't be used; the message names it.
        """
        run = headers.get(RUN)
        if run is None:
            return None
        node = headers.get(NODE, "")
        if len(node) > _ENCODED_MAX:
            raise InputError(f"{NODE} is longer than {NODE_CHARS_MAX} characters", param=NODE)
        with _named():
            caller = Caller(run, unquote(node, errors="strict"), _depth(headers.get(DEPTH, "0")))
        return cls(caller, _seconds(headers.get(DEADLINE)), _priority(headers.get(PRIORITY)))

    def applied(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return a request's options as its run bounds them.

        The run's deadline holds where it is sooner, its class where the request is of the class
        normal.

        Raises:
            DeadlineExceeded: the run's deadline has passed.
        """
        changed = dict(options)
        if self.seconds_left is not None:
            if self.seconds_left <= 0:
                raise DeadlineExceeded(f"the deadline of run {self.caller.run} has passed")
            own_s = options.get("deadline_s")
            is_sooner = isinstance(own_s, int | float) and own_s < self.seconds_left
            changed["deadline_s"] = own_s if is_sooner else self.seconds_left
        is_plain = options.get("priority") in (None, "normal", Priority.NORMAL)
        if self.priority is not None and is_plain:
            changed["priority"] = self.priority
        return changed


_current: ContextVar[CallIdentity | None] = ContextVar("heddle_call", default=None)


def current_call() -> CallIdentity | None:
    """Return whose call is being made; None = no program has said."""
    return _current.get()


@contextmanager
def calling(identity: CallIdentity | None) -> Iterator[None]:
    """Make it the identity of what is submitted in this block, also by threads that it calls."""
    token = _current.set(identity)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def _named() -> Iterator[None]:
    """Name the header in what is wrong with a caller."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise InputError(f"{NODE} must be percent-encoded UTF-8", param=NODE) from error
    except InputError as error:
        header = {"run": RUN, "node": NODE, "depth": DEPTH}.get(error.param, error.param)
        raise InputError(f"{header}: {error}", param=header) from error


def _depth(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > _DEPTH_DIGITS:
        raise InputError(f"depth must be from 0 to {DEPTH_MAX}, got {text!r:.40}", param="depth")
    return int(text)


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise InputError(
            f"{DEADLINE} must be the seconds that are left, got {text!r:.40}", param=DEADLINE
        )
    return seconds


def _priority(text: str | None) -> Priority | None:
    if text is None:
        return None
    try:
        return member_named(Priority, text, PRIORITY)
    except ConfigError as error:
        raise InputError(str(error), param=PRIORITY) from error
