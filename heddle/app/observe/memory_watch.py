"""Compares a server's memory split with the requests that come, and says when another is better.

KV pages, the index and its hot clusters get their memory when their lanes start, each in a process
of its own. So a better split is advised, with the settings to start the server with.
"""

import logging
import math
from dataclasses import dataclass, field, replace
from typing import Final

from heddle.app.observe.server_state import MemoryState
from heddle.app.observe.stage_window import StageWindow
from heddle.app.stage_mix import stage_mix_text
from heddle.core.ports import Clock
from heddle.core.printing.sizes import mib
from heddle.costs.memory_replan import Replan, ReplanState, find_replan, review
from heddle.costs.memory_split import MeasuredCurves, MemorySplit, StageMix, predict_split
from heddle.runtime.events import Answer, RequestEvent
from heddle.runtime.receipt import Receipt
from heddle.runtime.request import EventSink

log = logging.getLogger(__name__)
REVIEW_S: Final = 15.0  # from one review to the next, while requests are answered


@dataclass(slots=True)
class MemoryWatch:
    """Counts the stages of a server's requests, and reviews the split of its memory.

    Args:
        curves: what the memory profile has measured.
        planned: the server's split.
        expected_per_s: requests a second that it was planned for; inf = as many as are served.
        clock: the runtime's.

    Mutates: the methods count; only the runtime's thread may call them. Any thread may read
        `state`.
    """

    curves: MeasuredCurves
    planned: MemorySplit
    expected_per_s: float
    clock: Clock
    state: MemoryState = field(init=False)
    _window: StageWindow = field(init=False)
    _reviewed_s: float = field(default=-math.inf, init=False)
    _replan: ReplanState = field(default_factory=ReplanState, init=False)

    def __post_init__(self) -> None:
        self.state = _state(self.planned, None, "")
        self._window = StageWindow(self.clock.now_s())

    def watched(self, sink: EventSink) -> EventSink:
        """Count a request that comes; return a sink that counts its stages and passes events on."""
        self._window.came(self.clock.now_s())

        def push(event: RequestEvent) -> None:
            if isinstance(event, Answer):
                self._answered(event.receipt)
            sink(event)

        return push

    def _answered(self, receipt: Receipt) -> None:
        now_s = self.clock.now_s()
        self._window.answered(receipt, now_s)
        if now_s - self._reviewed_s < REVIEW_S:
            return
        self._reviewed_s = now_s
        mix = self._window.mix(now_s)
        if mix is None:  # after a pause, what was found before it says nothing
            self._replan = replace(self._replan, differs_since_s=None)
        else:
            self._review(mix, now_s)

    def _review(self, mix: StageMix, now_s: float) -> None:
        rate_per_s = max(self.expected_per_s, self._window.rate_per_s(now_s))
        before, planned = self._replan.advised, self.planned
        found = find_replan(self.curves, planned, mix, rate_per_s)
        self._replan = review(self._replan, found, now_s)
        advised = self._replan.advised
        budget_bytes = planned.kv_bytes + planned.rest_bytes
        present = predict_split(self.curves, mix, rate_per_s, budget_bytes, planned.kv_bytes)
        advice = "" if advised is None else self._advice(advised)
        self.state = _state(present, advised, advice)
        if advised is None and before is not None:
            log.info("the memory split fits the requests again")
        elif advised is not None and (before is None or _size(before) != _size(advised)):
            log.warning("%s", advice)

    def _advice(self, advised: Replan) -> str:
        present, better, rate_per_s = advised
        settings = f"--stage-mix {stage_mix_text(better.mix)}"
        if rate_per_s > self.expected_per_s:
            settings += f" --expected-rate {rate_per_s:.3g}"
        return (
            f"requests take {better.mix.generations:.3g} generations and "
            f"{better.mix.searches:.3g} searches each: {mib(better.kv_bytes)} of KV pages would "
            f"serve {better.requests_per_s:.2f} requests/s, and {mib(present.kv_bytes)} serve "
            f"{present.requests_per_s:.2f}; memory is split when lanes start, so start the server "
            f"again with {settings}"
        )


def _state(present: MemorySplit, advised: Replan | None, advice: str) -> MemoryState:
    better = present if advised is None else advised.better
    return MemoryState(
        kv_bytes=present.kv_bytes,
        requests_per_s=present.requests_per_s,
        generations=present.mix.generations,
        searches=present.mix.searches,
        advised_kv_bytes=better.kv_bytes,
        advised_requests_per_s=better.requests_per_s,
        advice=advice,
    )


def _size(replan: Replan) -> int:
    return replan.better.kv_bytes
