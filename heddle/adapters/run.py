"""One run of a program that drives: its identity, its calls, and what they add up to."""

import secrets
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from heddle.app.requests.call_identity import CallIdentity
from heddle.core.ports import Clock
from heddle.core.tasks import NODE_CHARS_MAX, Caller, Priority
from heddle.runtime.clock import SystemClock

CALLS_MAX: Final = 1_000  # kept one by one; all are counted
OTHER: Final = ""  # the node of calls from outside of any


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call of a node.

    Args:
        node: the node's name; "" = unknown.
        kind: "chat", "search", "embed" or "rerank".
        begun_s: from the begin of the run [s].
        seconds: until its end [s].
        waited_s: of these, how long its primitives waited for their engines [s]; 0 where the
            engine reports nothing.
        prompt_tokens: tokens of its prompt.
        cached_tokens: of these, read from a prefix cache.
        tokens: tokens that were written.
        error: the name of the error that ended it; "" = it has succeeded.
    """

    node: str
    kind: str
    begun_s: float
    seconds: float
    waited_s: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    tokens: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class ToolRecord:
    """What a node did in Python: how often, and how long in all [s]."""

    times: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RunReceipt:
    """What was done for a run of a program that drives.

    Args:
        run: its id, which the engine's log and receipts name.
        seconds: from its begin to its end [s].
        primitives_seen: for each node that calls the engine, the kinds of primitives.
        tools: for each node that is plain Python, how often it ran.
        calls: the calls of the engine, in the order of their ends; the first 1,000.
        calls_count: all of them.
        waited_s: how long their primitives waited for engines, added up [s].
        error: the name of the error that ended it; "" = it has succeeded.
    """

    run: str
    seconds: float
    primitives_seen: Mapping[str, tuple[str, ...]]
    tools: Mapping[str, ToolRecord]
    calls: tuple[CallRecord, ...]
    calls_count: int
    waited_s: float
    error: str = ""


@dataclass(slots=True)
class Run:
    """A run while it is under way. Safe from any thread.

    Args:
        primitives: for each node that is known to call the engine, the kinds.
        seconds: until the run's deadline [s]; None = it has none.
        priority: the class of its calls; None = as each call says.
        clock: the run's.
    """

    primitives: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    seconds: float | None = None
    priority: Priority | None = None
    clock: Clock = field(default_factory=SystemClock)
    id: str = field(default_factory=lambda: f"run-{secrets.token_hex(8)}")
    _begun_s: float = field(init=False)
    _calls: list[CallRecord] = field(default_factory=list)
    _count: int = 0
    _waited_s: float = 0.0
    _tools: Counter[str] = field(default_factory=Counter)
    _tool_s: dict[str, float] = field(default_factory=dict)
    _seen: dict[str, dict[str, None]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._begun_s = self.clock.now_s()

    @property
    def age_s(self) -> float:
        """How long ago it began [s]."""
        return self.clock.now_s() - self._begun_s

    def identity(self, node: str, depth: int) -> CallIdentity:
        """Return what a call of a node says of itself."""
        shown = "".join(sign if sign.isprintable() else "?" for sign in node[:NODE_CHARS_MAX])
        left_s = None if self.seconds is None else self.seconds - self.age_s
        return CallIdentity(Caller(self.id, shown, depth), left_s, self.priority)

    def add_call(self, record: CallRecord, kinds: tuple[str, ...]) -> None:
        """Take in a call that has ended, and the primitives that it was."""
        with self._lock:
            self._count += 1
            self._waited_s += record.waited_s
            if len(self._calls) < CALLS_MAX:
                self._calls.append(record)
            self._seen.setdefault(record.node, {}).update(dict.fromkeys(kinds))

    def add_tool(self, node: str, seconds: float) -> None:
        """Take in that a node without primitives has run [s]."""
        with self._lock:
            self._tools[node] += 1
            self._tool_s[node] = self._tool_s.get(node, 0.0) + seconds

    def receipt(self, error: BaseException | None = None) -> RunReceipt:
        """Return what was done until now."""
        with self._lock:
            found = {node: dict.fromkeys(kinds) for node, kinds in self.primitives.items()}
            for node, kinds in self._seen.items():
                found.setdefault(node, {}).update(kinds)
            tools = {n: ToolRecord(times, self._tool_s[n]) for n, times in self._tools.items()}
            return RunReceipt(
                run=self.id,
                seconds=self.age_s,
                primitives_seen={node: tuple(kinds) for node, kinds in found.items()},
                tools=tools,
                calls=tuple(self._calls),
                calls_count=self._count,
                waited_s=self._waited_s,
                error="" if error is None else type(error).__name__,
            )


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a run a call is made: the node, and the steps that follow it at most."""

    run: Run
    node: str = OTHER
    depth: int = 0

    @property
    def identity(self) -> CallIdentity:
        """What a call from here says of itself."""
        return self.run.identity(self.node, self.depth)


_place: ContextVar[Place | None] = ContextVar("heddle_place", default=None)


def current_place() -> Place | None:
    """Return where the calls of this task or thread are made; None = in no run."""
    return _place.get()


@contextmanager
def at(place: Place | None) -> Iterator[None]:
    """Make it the place of the calls in this block, also those of tasks and threads that it makes.

    Not for a generator that yields within the block: its caller would be at that place, too.
    """
    token = _place.set(place)
    try:
        yield
    finally:
        _place.reset(token)


def waited_s(receipt: Mapping[str, Any]) -> float:
    """Return how long the primitives of a request waited for their engines, added up [s]."""
    spans = receipt.get("spans") or ()
    return sum(max(0.0, span["sent_s"] - span["ready_s"]) for span in spans)
