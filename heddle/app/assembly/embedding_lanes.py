"""Which embedding lanes a server has, and the pool that makes one engine of several."""

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from heddle.app.assembly.lane_probe import LaneProbe
from heddle.app.assembly.placement import Placement
from heddle.app.embedding_depths import WindveDepths
from heddle.core.call_order import SHORTEST_FIRST, CallOrder
from heddle.core.credits import Credits
from heddle.core.errors import ConfigError
from heddle.core.ports import Clock, EnginePort
from heddle.core.primitives import PrimitiveKind
from heddle.costs.batch_cost import BatchCost, LaneDepth, queue_depth
from heddle.costs.lane_cost import LaneCost
from heddle.engines.embedding.admission_policies import (
    AdmissionPolicy,
    PredictedFinish,
    Windve,
)
from heddle.engines.embedding.build import EmbeddingSettings
from heddle.engines.embedding.engine import PRIOR_S
from heddle.engines.embedding.lane_pool import LanePool
from heddle.engines.embedding.lane_queue import LaneQueue
from heddle.engines.embedding.long_texts import LongTexts
from heddle.engines.embedding.queue_manager import QueueManager
from heddle.engines.embedding.token_estimate import TokenEstimate
from heddle.engines.embedding.wanted_lanes import WantedLane
from heddle.hosts.devices import Device, DeviceKind, node_of
from heddle.hosts.lane_spec import EngineSpec, LaneSpec
from heddle.hosts.process_port import ProcessPort
from heddle.runtime.supervision import LaneState

log = logging.getLogger(__name__)
POOL = "embedding"
CPU_LANE = f"{POOL}-cpu"
ROWS = 512  # texts in flight on a lane: two full batches wait while one runs
QUERY_TOKENS = 75  # of the depths that are logged, as in WindVE's evaluation
SHARED_STEP_S = 0.004  # that embedding adds to a decode step at most, on a GPU with the LLM
SLOS_S = (0.1, 0.25, 0.5, 1.0, 2.0)


@dataclass(frozen=True, slots=True)
class EmbeddingLane:
    """One lane: its device, as torch names it, its dtype, and its cores; () = not pinned.

    `step_s_max` bounds its steps where the LLM decodes on the same device. `tokenizer_cpus` are
    those of its tokenising thread, () = any; None = it tokenises on its own. `memory_node` is the
    NUMA node that its memory is bound to; None = any, and `memory_problem` says why where there
    are several.
    """

    name: str
    device: str
    dtype: str
    cpus: tuple[int, ...] = ()
    threads: int = 1
    step_s_max: float = math.inf
    tokenizer_cpus: tuple[int, ...] | None = None
    memory_node: int | None = None
    memory_problem: str = ""

    def line(self) -> str:
        """Return what the lane may use, in words."""
        where, also = _cores(self.cpus), ""
        if self.memory_node is not None:
            also += f", memory on node {self.memory_node}"
        if self.memory_problem:
            also += f", memory not bound to its node: {self.memory_problem}"
        if self.tokenizer_cpus is not None:
            also += f", tokenises on {_cores(self.tokenizer_cpus)}"
        if math.isfinite(self.step_s_max):
            also += f", steps of at most {self.step_s_max * 1e3:g} ms beside decoding"
        return f"{self.name}: {self.device}, {self.dtype}, {self.threads} threads, {where}{also}"

    def spec(
        self,
        model: str,
        long_texts: LongTexts = LongTexts.CUT,
        order: CallOrder = SHORTEST_FIRST,
    ) -> LaneSpec:
        """Return the lane as a process."""
        settings = EmbeddingSettings(
            model,
            self.dtype,
            self.device,
            threads=self.threads,
            long_texts=long_texts,
            step_s_max=self.step_s_max,
            tokenizer_cpus=self.tokenizer_cpus,
            order=order,
        )
        engine = embedding_engine(self.name, settings)
        return LaneSpec(self.name, (engine,), self.cpus, self.threads, memory_node=self.memory_node)


def _cores(cpus: tuple[int, ...]) -> str:
    return f"cores {', '.join(map(str, cpus))}" if cpus else "any core"


def embedding_engine(name: str, settings: EmbeddingSettings) -> EngineSpec:
    """Return an embedding engine for a lane."""
    return EngineSpec(
        name,
        "heddle.engines.embedding.build:build_engine",
        settings,
        ROWS,
        frozenset({PrimitiveKind.EMBEDDING}),
    )


def device_lines(
    devices: Sequence[Device], lanes: Sequence[EmbeddingLane] | None, *, are_named: bool = False
) -> Iterator[str]:
    """Yield what the detector found, and why queries don't spill between it where they don't.

    Args:
        devices: all that can embed.
        lanes: the embedding lanes of the server's plan; None = it has none.
        are_named: whether the user has named them.
    """
    for device in devices:
        yield device.line()
    if lanes is None or len(lanes) > 1:
        return
    has_two_kinds = len({device.kind for device in devices}) > 1
    if are_named:
        yield "no spill between lanes: embedding_lanes names one"
    elif not has_two_kinds:
        yield "no spill between devices: one kind of device"
    else:
        yield "no spill between devices: no core is left for it"


def plan_embedding_lanes(
    devices: Sequence[Device],
    placement: Placement,
    dtype: str,
    *,
    wanted: Sequence[WantedLane] | None = None,
    decodes_on: str | None = None,
    memory_problem: str = "",
) -> tuple[EmbeddingLane, ...]:
    """Return the lanes of a server's embedding service; () = one engine in the retrieval lane.

    Unless the user names them, there is a lane for each accelerator, and where the plan has cores
    for it, one on the CPU of each NUMA node for what the others can't take in time. All tokenise on
    the low cores, which stay with the server.

    Args:
        devices: what the detector found.
        placement: the server's plan; it has the cores of each lane on the CPU.
        dtype: of every lane: vectors of two types don't mix in a corpus.
        wanted: the lanes that the user has named; None = none.
        decodes_on: the device of the LLM, as torch names it; None = no accelerator.
        memory_problem: why memory can't be bound to a NUMA node here; "" = it can.

    Source: WindVE §IV-C, §IV-D.
    """
    fast = [device.torch_name for device in devices if device.kind is not DeviceKind.CPU]
    if wanted is not None:
        fast = [lane.device for lane in wanted if not lane.is_cpu]
    low = placement.retrieval_cpus if placement.is_pinned else ()
    lanes = [
        EmbeddingLane(
            f"{POOL}-{name.replace(':', '')}",
            name,
            dtype,
            step_s_max=SHARED_STEP_S if name == decodes_on else math.inf,
            tokenizer_cpus=low,
        )
        for name in fast
    ]
    # What the user has named is pinned under a quota, too.
    is_pinned = placement.is_pinned or wanted is not None
    for number, cpus in enumerate(placement.embedding_cores):
        several = str(number) if len(placement.embedding_cores) > 1 else ""
        lane = EmbeddingLane(
            f"{CPU_LANE}{several}",
            "cpu",
            dtype,
            cpus if is_pinned else (),
            len(cpus),
            tokenizer_cpus=low,
        )
        lanes.append(_with_memory(lane, devices, memory_problem))
    return tuple(lanes)


def _with_memory(lane: EmbeddingLane, devices: Sequence[Device], problem: str) -> EmbeddingLane:
    """Return the lane with its memory on the node of its cores, where there are several nodes."""
    node = node_of(lane.cpus, devices)
    if node is None or sum(device.kind is DeviceKind.CPU for device in devices) < 2:
        return lane
    return replace(lane, memory_node=None if problem else node, memory_problem=problem)


def retrieval_embedder(placement: Placement, dtype: str) -> EmbeddingLane:
    """Return what embeds where there are no accelerators: an engine in the (first) index lane."""
    cpus = placement.retrieval_cpus if placement.is_pinned else ()
    return EmbeddingLane(POOL, "cpu", dtype, cpus, placement.retrieval_threads)


def embedding_pool(
    ports: Sequence[EnginePort],
    estimate: TokenEstimate,
    clock: Clock,
    *,
    tokens_max: int,
    fits_prior: bool = True,
    are_alike: bool = False,
    lender: EnginePort | None = None,
    windve: WindveDepths | None = None,
) -> LanePool:
    """Return embedding lanes as one engine, the fastest first.

    Each lane is timed for about two seconds, so no other caller may use it yet. A lane alone, or
    one of several alike, whose model the engine's prior fits starts from the prior; so does an
    engine in this process.

    Args:
        ports: the lanes.
        estimate: how long texts will be.
        clock: the time of deadlines.
        tokens_max: padded tokens that the memory for waiting texts holds, of all lanes together.
        fits_prior: whether the model is the one that the engine's prior was measured on.
        are_alike: whether all lanes are of one kind of device.
        lender: the LLM, where CPU lanes run on the LLM's cores. While the LLM has work and
            another lane is ready, they take no new texts and finish those they hold.
        windve: by which depths lanes take queries; None = by predicted finish.

    Raises:
        EngineError: a lane doesn't answer.
        ConfigError: the depths are other lanes', or close every lane.
    """
    if windve is not None:
        windve.check([port.name for port in ports])
    share = tokens_max // len(ports)
    is_new = (len(ports) > 1 and not are_alike) or not fits_prior or windve is not None
    queues = [
        _queue(port, clock, share, is_timed=is_new and isinstance(port, ProcessPort))
        for port in ports
    ]
    queues.sort(key=lambda queue: queue.cost.cost.latency_slope_s(QUERY_TOKENS))
    credits = Credits(ROWS * len(ports))
    manager = QueueManager(queues, _policy(queues, windve))
    is_up = partial(may_take, ports=ports, lender=lender)
    return LanePool(POOL, ports, manager, estimate, clock, is_up, credits)


def _policy(queues: Sequence[LaneQueue], windve: WindveDepths | None) -> AdmissionPolicy:
    if windve is None:
        return PredictedFinish()
    depths = windve.found
    if depths is None:
        depths = {queue.name: _depth(queue, windve.slo_s).queries for queue in queues}
    log.info(
        "embedding takes queries by Algorithm 1, within %g s: %s",
        windve.slo_s,
        ", ".join(f"{queue.name} {depths[queue.name]}" for queue in queues),
    )
    if not any(depths[queue.name] for queue in queues):
        raise ConfigError(_all_closed(queues, windve))
    return Windve(depths)


def _all_closed(queues: Sequence[LaneQueue], windve: WindveDepths) -> str:
    """Return why no lane takes a query, and the fix: a question would wait until its deadline."""
    fix = "give a longer one, or set embedding_admission to predicted"
    if windve.found is not None:
        return f"embedding_depths closes every lane for embedding_slo_s {windve.slo_s:g}: {fix}"
    opens_at_s = min(_depth(queue, windve.slo_s).opens_at_s for queue in queues)
    return (
        f"embedding_slo_s is {windve.slo_s:g}, and a query of {QUERY_TOKENS} tokens takes up to "
        f"{opens_at_s:.3f} s on the fastest embedding lane: {fix}"
    )


def _depth(queue: LaneQueue, slo_s: float) -> LaneDepth:
    """Return how many queries of `QUERY_TOKENS` a lane answers within a limit [s]."""
    return queue_depth(
        queue.cost.cost,
        slo_s,
        QUERY_TOKENS,
        margin=queue.cost.margin,
        tokens_max=queue.tokens_max,
        batch_tokens_max=queue.batch_tokens_max,
    )


def may_take(port: EnginePort, ports: Sequence[EnginePort], lender: EnginePort | None) -> bool:
    """Whether a lane may take texts: it is there, and its cores' lender has no use for them.

    A lost accelerator's texts go to the CPU lanes all the same.
    """
    is_wanted_back = lender is not None and lender.credits.used > 0 and _is_on_cpu(port)
    has_others = any(is_ready(other) for other in ports if not _is_on_cpu(other))
    return is_ready(port) and not (is_wanted_back and has_others)


def _is_on_cpu(port: EnginePort) -> bool:
    return port.name.startswith(CPU_LANE)


def _queue(port: EnginePort, clock: Clock, tokens_max: int, *, is_timed: bool) -> LaneQueue:
    on_gpu = f"-{DeviceKind.CUDA.value}" in port.name or f"-{DeviceKind.NPU.value}" in port.name
    limits = EmbeddingSettings().limits(on_gpu=on_gpu)
    if not is_timed:
        prior = BatchCost(PRIOR_S["call"], PRIOR_S["tokens"])
        cost = LaneCost(port.name, prior)
        return LaneQueue(port.name, cost, limits.tokens_max, ROWS, tokens_max)
    cost = LaneProbe(port, clock).cold_start()
    queue = LaneQueue(port.name, cost, limits.tokens_max, ROWS, tokens_max)
    for slo_s in SLOS_S:
        log.info("%s", _depth(queue, slo_s).line(queue.name))
    return queue


def is_ready(port: EnginePort) -> bool:
    """Whether a lane can work right now; engines in this process always can."""
    return not isinstance(port, ProcessPort) or port.health.state is LaneState.READY
