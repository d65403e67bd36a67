"""Cycle passes at work: what they see of the wavefront, and how their edits reach the engines."""

from collections.abc import Mapping
from dataclasses import dataclass

from heddle.core.commands import Steer
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity
from heddle.passes.cycle_view import CycleView, Speculate, SpeculateDecode
from heddle.passes.runner import PassRunner
from heddle.runtime.lane import Lane
from heddle.runtime.speculator import Speculator


@dataclass(slots=True)
class Steering:
    """Runs the cycle passes while anything searches: they cut searches into sub-stages, and choose
    prompts to be computed ahead.

    Mutates: `steered` of the lanes.
    """

    runner: PassRunner
    lanes: Mapping[str, Lane]
    speculator: Speculator

    def run(self, now_s: float) -> None:
        """Show the passes the wavefront, and send what they ask for."""
        if any(map(_searches, self.lanes.values())):
            self._look(now_s)
        else:
            self.speculator.forget_looks()

    def _look(self, now_s: float) -> None:
        wavefront = tuple(
            Identity(p.request_id, p.primitive, p.depth)
            for lane in self.lanes.values()
            for p in lane.scheduler.pending.values()
        )
        engines = {n: lane.view() for n, lane in self.lanes.items()}
        view = CycleView(now_s, wavefront, engines, self.speculator.offered(now_s))
        for edit in self.runner.look(view):
            if isinstance(edit, Speculate):
                self.speculator.begin(edit, now_s)
                continue
            if isinstance(edit, SpeculateDecode):
                self.speculator.write_on(edit, now_s)
                continue
            lane = self.lanes[edit.engine]
            lane.steered = lane.port.epoch, edit.budget_s
            lane.port.send(Steer(budget_s=edit.budget_s))


def _searches(lane: Lane) -> bool:
    return not lane.is_idle and PrimitiveKind.SEARCHING in lane.port.kinds
