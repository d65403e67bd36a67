"""What all wrapped programs share: the runs they begin, and the receipts of those."""

import logging
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeVar

from heddle.adapters.engine import Engine, engine_of
from heddle.adapters.run import Run, RunReceipt
from heddle.app.requests.arguments import member_named, patience_s
from heddle.core.errors import ConfigError, HeddleError, InputError
from heddle.core.tasks import Priority

RECEIPTS_KEPT: Final = 64
SHOWN_MAX: Final = 12
C = TypeVar("C")

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Wrapping:
    """A wrapped program: which of its nodes call the engine, and how its runs are begun and ended.

    Args:
        primitives: the kinds of primitives of each node that calls the engine.
        depths: for each node, the steps that follow it at most.
        deadline_s: seconds that each run may take; None = no bound.
        priority: the class of all of a run's calls; None = as each call says.
        on_receipt: called with the receipt of each run that has ended.

    Mutates: `receipts` keeps those of the last 64 runs.
    """

    primitives: Mapping[str, tuple[str, ...]]
    depths: Mapping[str, int] = field(default_factory=dict)
    deadline_s: float | None = None
    priority: Priority | None = None
    on_receipt: Callable[[RunReceipt], object] | None = None
    receipts: deque[RunReceipt] = field(default_factory=lambda: deque(maxlen=RECEIPTS_KEPT))

    @classmethod
    def of(
        cls,
        primitives: Mapping[str, tuple[str, ...]],
        depths: Mapping[str, int],
        options: Mapping[str, Any],
    ) -> Self:
        """Check the options that all frameworks take.

        Raises:
            ConfigError: one can't be used, or is none of them.
        """
        known = ("deadline_s", "priority", "on_receipt")
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise ConfigError(
                f"wrap: {unknown[0]!r} is no option; it takes {', '.join(known)} and those of "
                "docs/guide/adapters.md"
            )
        priority, on_receipt = options.get("priority"), options.get("on_receipt")
        try:
            deadline_s = patience_s(options.get("deadline_s"))
        except InputError as error:
            raise ConfigError(f"wrap: {error}") from error
        if deadline_s is not None and not deadline_s > 0:
            raise ConfigError(f"wrap: deadline_s must be above 0, got {deadline_s:g}")
        if deadline_s == math.inf:
            deadline_s = None
        if on_receipt is not None and not callable(on_receipt):
            raise ConfigError(f"wrap: on_receipt must be callable, got {on_receipt!r:.40}")
        return cls(
            primitives,
            depths,
            deadline_s,
            None if priority is None else member_named(Priority, priority, "priority"),
            on_receipt,
        )

    def begin(self) -> Run:
        """Return a new run."""
        return Run(self.primitives, self.deadline_s, self.priority)

    def end(self, run: Run, error: BaseException | None = None) -> None:
        """Take in that a run has ended, and how; what `on_receipt` raises is logged."""
        receipt = run.receipt(error)
        self.receipts.append(receipt)
        log.info("run %s: %d calls in %.3f s", run.id, receipt.calls_count, receipt.seconds)
        if self.on_receipt is not None:
            try:
                self.on_receipt(receipt)
            except Exception:
                log.exception("on_receipt failed for run %s", run.id)


def engine_for(named: object, found: Mapping[str, Engine], what: str) -> Engine:
    """Return the engine of a wrapped program: the one that is named, or that of its components.

    Args:
        named: what `wrap` was given as engine; None = nothing.
        found: the engines of the Heddle components within, by component.
        what: the program, for messages.

    Raises:
        ConfigError: nothing names one, or the components have different ones.
    """
    if named is not None:
        return engine_of(named)
    engines = set(found.values())
    if len(engines) == 1:
        return engines.pop()
    if engines:
        names = ", ".join(f"{name}: {engine.name}" for name, engine in found.items())
        raise ConfigError(f"wrap: the components of {what} have different engines ({names})")
    raise ConfigError(
        f"wrap: nothing in {what} names an engine: give one, as in heddle.wrap(program, "
        "'http://127.0.0.1:8321') or heddle.wrap(program, server)"
    )


def stand_in_of(given: object, kind: type[C], option: str) -> C:
    """Return the component that an option of `wrap` names.

    Raises: ConfigError: it is of another kind.
    """
    if not isinstance(given, kind):
        raise ConfigError(f"wrap: {option} must be True or a {kind.__name__}, got {given!r:.60}")
    return given


def nothing_seen(what: str, looked_at: Mapping[str, str], fix: str) -> HeddleError:
    """Return the error of a program of which no node can be a primitive.

    Args:
        what: the program, in words.
        looked_at: what was found in each of its nodes, in words.
        fix: what to do.
    """
    return ConfigError(
        f"wrap: no node of {what} calls a model or searches ({listed(looked_at)}): {fix}"
    )


def listed(looked_at: Mapping[str, str]) -> str:
    """Return what was found in each node of a program as one line, cut where it is long."""
    shown = [f"{node}: {words}" for node, words in list(looked_at.items())[:SHOWN_MAX]]
    more = len(looked_at) - len(shown)
    rest = f", and {more} more" if more > 0 else ""
    return ("; ".join(shown) or "it has no nodes") + rest
