"""When prompts are computed ahead, and a server over recorded searches that does so."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from benchmarks.coscheduling.asks import Ask
from benchmarks.speculating.engines import LLM_LIMITS, LongPassages, lanes
from benchmarks.speculating.recorded import Recording
from benchmarks.speculating.rivals import MakePass, Unguarded
from benchmarks.virtual.clocked_server import ClockedServer, VirtualAsk
from heddle.passes.runner import CYCLE_PASSES, CyclePass, PassRunner
from heddle.passes.split_substages import SplitSubstages
from heddle.runtime.batching import topology_aware
from heddle.runtime.region_plan import RegionPlanner
from heddle.runtime.runtime import Runtime
from heddle.simulator.cost_model_llm import WordTokenizer
from heddle.simulator.port import SimulatedPort
from heddle.simulator.timeline import Timeline
from heddle.workflow.nodes import RetrievalNode
from heddle.workflow.presets import PRESETS
from heddle.workflow.workflow import Workflow

PAUSE_S: Final = 1.0  # before the first ask of a block


@dataclass(frozen=True, slots=True)
class Policy:
    """When prompts are computed ahead.

    `rival` makes the pass that decides in the place of Heddle's own, whose guesses need no
    probability. Without `speculates` no search reports partial hits.
    """

    name: str
    speculates: bool = True
    rival: MakePass | None = None

    def cycle_passes(self) -> Sequence[CyclePass]:
        """Return the passes of one server."""
        return CYCLE_PASSES if self.rival is None else (SplitSubstages(), self.rival())


OFF: Final = Policy("off", speculates=False)
OWN: Final = Policy("heddle")
UNGUARDED: Final = Policy("unguarded", rival=Unguarded)


def server_of(found: Recording, policy: Policy, seed: int) -> ClockedServer:
    """Return a server that has just started.

    Args:
        found: what its searches find, and when.
        policy: of its guesses.
        seed: of its lanes' draws.
    """
    draws, timeline = random.Random(seed), Timeline()
    built = lanes(found, always_told=policy.rival is not None)
    ports = [SimulatedPort(one, timeline, random.Random(draws.random())) for one in built]
    for port in ports:
        port.device.jitter_share = 0.0  # policies differ in their schedules alone
    passes = policy.cycle_passes()
    runtime = Runtime(
        ports=ports,
        planner=RegionPlanner(PassRunner(timeline, cycle_passes=passes)),
        policy=topology_aware,
        tokenizer=WordTokenizer(LLM_LIMITS.context_tokens_max),
        passages=LongPassages(found),
        clock=timeline,
        speculates=policy.speculates,
    )
    return ClockedServer(timeline, runtime)


def virtual(asks: Sequence[Ask]) -> list[VirtualAsk]:
    """Return asks for such a server."""
    return [
        VirtualAsk(compiled(ask.workflow, ask.nprobe), {"query": ask.question}, PAUSE_S + ask.at_s)
        for ask in asks
    ]


@cache
def compiled(name: str, nprobe: int | None) -> Workflow:
    """Return a ready-made workflow whose searches scan `nprobe` lists."""
    workflow = PRESETS[name]().compile()
    nodes = {
        node_id: replace(node, nprobe=nprobe) if isinstance(node, RetrievalNode) else node
        for node_id, node in workflow.nodes.items()
    }
    return replace(workflow, nodes=nodes)
