"""Cycle passes at work: what they see of the wavefront, and how their edits reach the engines."""

from collections.abc import Mapping
from dataclasses import dataclass

from heddle.core.commands import Steer
from heddle.core.primitives import PrimitiveKind
from heddle.passes.cycle_view import (
    AddEdge,
    CycleView,
    Edit,
    Prefetch,
    Reorder,
    Replace,
    SetBudget,
    Speculate,
    SpeculateDecode,
)
from heddle.passes.runner import PassRunner
from heddle.runtime.lane import Lane
from heddle.runtime.request import Request
from heddle.runtime.request_table import RequestTable
from heddle.runtime.speculator import Speculator
from heddle.runtime.wavefront import wavefront_of

RequestEdit = AddEdge | Replace | Speculate | SpeculateDecode | Prefetch
"""Edits that change one request, and no engine for others."""


@dataclass(slots=True)
class Steering:
    """Runs the cycle passes while anything searches, or waits for credits.

    Args:
        runner: has checked every edit that it returns against the view.
        lanes: the engines, by name.
        requests: those in flight, and how one ends for which an edit fails.
        speculator: offers prompts to be computed ahead, and begins those that are chosen.

    Mutates: `steered` of the lanes, their queues, and the runs that wait there.
    """

    runner: PassRunner
    lanes: Mapping[str, Lane]
    requests: RequestTable
    speculator: Speculator

    def run(self, now_s: float) -> None:
        """Show the passes the wavefront, and send what they ask for."""
        if any(_searches(lane) or lane.is_short for lane in self.lanes.values()):
            self._look(now_s)
        else:
            self.speculator.forget_looks()

    def _look(self, now_s: float) -> None:
        offered = self.speculator.offered(now_s)  # first: a request may end by it
        wavefront = tuple(
            ready
            for lane in self.lanes.values()
            if lane.scheduler.pending
            for ready in wavefront_of(lane, self.requests.open, now_s)
        )
        engines = {n: lane.view() for n, lane in self.lanes.items()}
        view = CycleView(
            now_s,
            wavefront,
            engines,
            offered.prompts,
            any(self._looks_pay(lane) for lane in self.lanes.values()),
            offered.stored,
        )
        for edit in self.runner.look(view):
            self._carry_out(edit, now_s)

    def _looks_pay(self, lane: Lane) -> bool:
        return _searches(lane) and self.speculator.dispatcher.looks_pay(lane)

    def _carry_out(self, edit: Edit, now_s: float) -> None:
        match edit:
            case SetBudget(engine=engine, budget_s=budget_s):
                lane = self.lanes[engine]
                lane.steered = lane.port.epoch, budget_s
                lane.port.send(Steer(budget_s=budget_s))
            case Reorder(engine=engine, order=order):
                self.lanes[engine].scheduler.first = order
            case _:
                request = self.requests.open.get(_request_of(edit))
                if request is not None:  # else an edit of this cycle has ended it
                    self.requests.guard(request, now_s, self._change, request, edit, now_s)

    def _change(self, request: Request, edit: RequestEdit, now_s: float) -> None:
        """Carry out an edit of one request."""
        match edit:
            case AddEdge():
                self._add_edge(request, edit)
            case Replace(primitive=primitive, payload=payload):
                request.runs[primitive].payload = payload
                request.receipt.edits.append(f"replace: the payload of {primitive}")
            case Speculate():
                self.speculator.begin(edit, now_s)
            case SpeculateDecode():
                self.speculator.write_on(edit, now_s)
            case Prefetch():
                self.speculator.read_kv(edit, now_s)

    def _add_edge(self, request: Request, edit: AddEdge) -> None:
        for lane in self.lanes.values():
            lane.scheduler.pending.pop((request.id, edit.consumer), None)
        request.runs[edit.producer].then.append(edit.consumer)
        request.runs[edit.consumer].waits += 1
        request.receipt.edits.append(f"add_edge: {edit.consumer} after {edit.producer}")


def _request_of(edit: RequestEdit) -> int:
    """Return the id of the request that an edit changes."""
    if isinstance(edit, AddEdge | Replace):
        return edit.request_id
    return edit.provisional.request_id


def _searches(lane: Lane) -> bool:
    return not lane.is_idle and PrimitiveKind.SEARCHING in lane.port.kinds
