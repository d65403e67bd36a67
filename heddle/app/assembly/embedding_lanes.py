"""Which embedding lanes a server has, and the pool that makes one engine of several."""

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from heddle.app.assembly.lane_probe import LaneProbe
from heddle.app.assembly.placement import Placement
from heddle.core.call_order import SHORTEST_FIRST, CallOrder
from heddle.core.credits import Credits
from heddle.core.ports import Clock, EnginePort
from heddle.core.primitives import PrimitiveKind
from heddle.costs.batch_cost import BatchCost, queue_depth
from heddle.costs.lane_cost import LaneCost
from heddle.engines.embedding.build import EmbeddingSettings
from heddle.engines.embedding.engine import PRIOR_S
from heddle.engines.embedding.lane_pool import LanePool
from heddle.engines.embedding.lane_queue import LaneQueue
from heddle.engines.embedding.long_texts import LongTexts
from heddle.engines.embedding.queue_manager import QueueManager
from heddle.engines.embedding.token_estimate import TokenEstimate
from heddle.hosts.devices import Device, DeviceKind, highest_cores, is_heterogeneous
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
    those of its tokenising thread, () = any; None = it tokenises on its own.
    """

    name: str
    device: str
    dtype: str
    cpus: tuple[int, ...] = ()
    threads: int = 1
    step_s_max: float = math.inf
    tokenizer_cpus: tuple[int, ...] | None = None

    def line(self) -> str:
        """Return what the lane may use, in words."""
        where, also = _cores(self.cpus), ""
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
        return LaneSpec(self.name, (engine,), self.cpus, self.threads)


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
    devices: Sequence[Device], wanted: bool, placement: Placement | None
) -> Iterator[str]:
    """Yield what the detector found, and why queries don't spill between it where they don't.

    Args:
        devices: all that can embed.
        wanted: whether queries may spill.
        placement: the server's plan; None = it has none.
    """
    for device in devices:
        yield device.line()
    if not is_heterogeneous(devices, wanted):
        yield f"no spill between devices: {'one kind of device' if wanted else 'switched off'}"
    elif placement is not None and not placement.embedding_cpus:
        yield "no spill between devices: no core is left for it"


def plan_embedding_lanes(
    devices: Sequence[Device],
    placement: Placement,
    dtype: str,
    *,
    decodes_on: str | None = None,
) -> tuple[EmbeddingLane, ...]:
    """Return the lanes of a server's embedding service; () = one engine in the retrieval lane.

    With accelerators there is a lane for each, and where the plan has cores for it, one on the
    CPU for what they can't take in time. It takes those cores from the highest down, inside one
    NUMA node. All tokenise on the low cores, which stay with the server.

    Args:
        devices: what the detector found.
        placement: the server's plan.
        dtype: of every lane: vectors of two types don't mix in a corpus.
        decodes_on: the device of the LLM, as torch names it; None = no accelerator.

    Source: WindVE §IV-C, §IV-D.
    """
    fast = [device for device in devices if device.kind is not DeviceKind.CPU]
    low = placement.retrieval_cpus if placement.is_pinned else ()
    lanes = [
        EmbeddingLane(
            f"{POOL}-{device.kind.value}{device.index}",
            device.torch_name,
            dtype,
            step_s_max=SHARED_STEP_S if device.torch_name == decodes_on else math.inf,
            tokenizer_cpus=low,
        )
        for device in fast
    ]
    usable = placement.embedding_cpus
    if not usable:
        return tuple(lanes)
    nodes = [device for device in devices if device.kind is DeviceKind.CPU]
    cpus = max((highest_cores(node, usable, len(usable)) for node in nodes), key=len)
    pinned = cpus if placement.is_pinned else ()
    cpu_lane = EmbeddingLane(CPU_LANE, "cpu", dtype, pinned, max(1, len(cpus)), tokenizer_cpus=low)
    return (*lanes, cpu_lane)


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
        lender: the LLM, where the CPU lane runs on the LLM's cores. While the LLM has work and
            another lane is ready, the CPU lane takes no new texts and finishes those it holds.

    Raises:
        EngineError: a lane doesn't answer.
    """
    share = tokens_max // len(ports)
    is_new = (len(ports) > 1 and not are_alike) or not fits_prior
    queues = [
        _queue(port, clock, share, is_timed=is_new and isinstance(port, ProcessPort))
        for port in ports
    ]
    queues.sort(key=lambda queue: queue.cost.cost.latency_slope_s(QUERY_TOKENS))
    credits = Credits(ROWS * len(ports))
    manager = QueueManager(queues)
    is_up = partial(may_take, ports=ports, lender=lender)
    return LanePool(POOL, ports, manager, estimate, clock, is_up, credits)


def may_take(port: EnginePort, ports: Sequence[EnginePort], lender: EnginePort | None) -> bool:
    """Whether a lane may take texts: it is there, and its cores' lender has no use for them.

    A lost accelerator's texts go to the CPU lane all the same.
    """
    is_wanted_back = lender is not None and lender.credits.used > 0 and port.name == CPU_LANE
    has_others = any(is_ready(other) for other in ports if other is not port)
    return is_ready(port) and not (is_wanted_back and has_others)


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
        depth = queue_depth(
            queue.cost.cost,
            slo_s,
            QUERY_TOKENS,
            margin=queue.cost.margin,
            tokens_max=tokens_max,
            batch_tokens_max=queue.batch_tokens_max,
        )
        log.info("%s", depth.line(queue.name))
    return queue


def is_ready(port: EnginePort) -> bool:
    """Whether a lane can work right now; engines in this process always can."""
    return not isinstance(port, ProcessPort) or port.health.state is LaneState.READY
