"""The runs of programs that call the engine: which calls belong together, and how old they are."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from heddle.core.tasks import Caller

RUNS_MAX: Final = 4096
IDLE_S_MAX: Final = 600.0
AGE_S_MAX: Final = 3600.0
TEXTS_MAX: Final = 32  # nodes of a run whose newest text is kept
TEXT_TOKENS_MAX: Final = 2048


@dataclass(slots=True)
class RunTexts:
    """The newest text of each node of a run, as a draft of its next one.

    Mutates: `note` keeps a text; those of the oldest nodes go.
    """

    _texts: OrderedDict[str, tuple[int, ...]] = field(default_factory=OrderedDict)

    def note(self, node: str, token_ids: tuple[int, ...]) -> None:
        """Keep what a node has written; "" is no node."""
        if not node:
            return
        self._texts[node] = token_ids[:TEXT_TOKENS_MAX]
        self._texts.move_to_end(node)
        if len(self._texts) > TEXTS_MAX:
            self._texts.popitem(last=False)

    def of(self, node: str) -> tuple[int, ...]:
        """Return what a node has written last; () = nothing."""
        return self._texts.get(node, ())


@dataclass(slots=True)
class ProgramRun:
    """A run: its first request's id, when that came, when the newest came [s], and its texts."""

    first_request: int
    since_s: float
    newest_s: float
    texts: RunTexts = field(default_factory=RunTexts)


@dataclass(slots=True)
class ProgramRuns:
    """Finds the run of each call; a run is its tenant's own.

    A run that rested for 10 minutes, or that began an hour ago, begins anew: no client can stay
    the oldest by keeping an id.

    Mutates: a bounded table, those that rested longest out first.
    """

    _known: OrderedDict[tuple[str, str], ProgramRun] = field(default_factory=OrderedDict)

    def joined(self, tenant: str, caller: Caller, request_id: int, now_s: float) -> ProgramRun:
        """Return the run that a request belongs to, with this request as its newest."""
        key = tenant, caller.run
        self._forget_rested(now_s)
        run = self._known.get(key)
        if run is None or now_s - run.since_s > AGE_S_MAX:
            run = self._known[key] = ProgramRun(request_id, now_s, now_s)
        run.newest_s = now_s
        self._known.move_to_end(key)
        if len(self._known) > RUNS_MAX:
            self._known.popitem(last=False)
        return run

    def _forget_rested(self, now_s: float) -> None:
        """Forget what begins anew in any case: its texts can take hundreds of kilobytes."""
        while self._known:
            if now_s - next(iter(self._known.values())).newest_s <= IDLE_S_MAX:
                return
            self._known.popitem(last=False)
