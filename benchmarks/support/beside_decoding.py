"""Embedding on a device that may also decode: traffic of both, and what each waits for.

A cell is one mix: whether an LLM decodes on the device meanwhile, whether a CPU lane helps, and
whether the device's embedding steps are kept short. Traffic is open loop, at shares of what the
device's lane alone can answer when nothing else runs.
"""

import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np

from benchmarks.support.random_llama import random_tokens
from benchmarks.support.virtual_lanes import LaneModel, Query, Tally, traffic
from heddle.app.assembly.lane_probe import WORD
from heddle.core.commands import Admit, Cancel, Release
from heddle.core.credits import Credits
from heddle.core.errors import Busy, EngineError, InputError
from heddle.core.frames import TERMINAL, Done, Event, Failed, Progress
from heddle.core.payloads import DecodePayload, EmbedPayload, PrefillPayload, Sampling, Segment
from heddle.core.ports import Clock, EnginePort
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Prefilled
from heddle.core.tasks import Identity, Task
from heddle.costs.lane_cost import LaneCost
from heddle.encoder.batch_scheduler import BatchLimits
from heddle.engines.embedding.lane_pool import LanePool
from heddle.engines.embedding.lane_queue import LaneQueue
from heddle.engines.embedding.queue_manager import QueueManager
from heddle.engines.embedding.token_estimate import TokenEstimate

MEAN_TOKENS: Final = 72
DEVICE, UNBOUNDED, CPU, LLM = "device", "device-unbounded", "cpu", "llm"
RATE_MAX: Final = 2000.0  # queries/s that one thread of Python can send and count
ROWS_MAX: Final = 4096


class Lanes(Protocol):
    """Lanes by name, and the time they live in."""

    @property
    def ports(self) -> Mapping[str, EnginePort]:
        """The lanes."""
        ...

    @property
    def clock(self) -> Clock:
        """What everything here is timed by."""
        ...

    def wait(self, until_s: float) -> None:
        """Return when a lane has told something, or at a time on the clock."""
        ...


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is embedded and decoded; `loads` are shares of what the device's lane can do."""

    seconds: float
    slo_s: float
    loads: tuple[float, ...]
    sequences: int
    prompt_tokens: int
    answer_tokens: int


@dataclass(frozen=True, slots=True)
class Cell:
    """One mix; `lanes` embed, the fastest first."""

    name: str
    lanes: tuple[str, ...]
    decodes: bool


CELLS: Final = (
    Cell("idle", (DEVICE,), False),
    Cell("idle, spill", (DEVICE, CPU), False),
    Cell("decoding", (DEVICE,), True),
    Cell("decoding, spill", (DEVICE, CPU), True),
    Cell("decoding, long steps", (UNBOUNDED,), True),
)


@dataclass(slots=True)
class Decoding:
    """Keeps `sizes.sequences` sequences decoding on a port and notes the time between their tokens.

    Mutates: `start`, `take_in` and `stop` send tasks and fill `gaps_s`.
    """

    port: EnginePort
    clock: Clock
    sizes: Sizes
    gaps_s: list[float] = field(default_factory=list)
    _ids: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    _told_s: dict[int, float | None] = field(default_factory=dict)  # decode -> its newest token
    _prefills: set[int] = field(default_factory=set)
    _is_on: bool = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return not self._told_s and not self._prefills

    def start(self) -> None:
        """Send the first sequences, and from now on another for each that ends."""
        self._is_on = True
        for _ in range(self.sizes.sequences):
            self._send()

    def stop(self) -> None:
        """Send no more and cancel what runs; `take_in` until it is idle."""
        self._is_on = False
        for task_id in (*self._told_s, *self._prefills):
            self.port.send(Cancel(task_id))

    def take_in(self) -> None:
        """Take in what the lane has told.

        Raises:
            EngineError: a sequence failed.
        """
        now_s = self.clock.now_s()
        for frame in self.port.frames():
            for event in frame.events:
                self._heard(event, now_s)

    def _heard(self, event: Event, now_s: float) -> None:
        if isinstance(event, Failed):
            raise EngineError(event.message, engine=self.port.name, request_ids=())
        if isinstance(event, Progress) and event.token_ids:
            before_s = self._told_s.get(event.task_id)
            if before_s is not None:
                tokens = len(event.token_ids)
                self.gaps_s += [(now_s - before_s) / tokens] * tokens
            self._told_s[event.task_id] = now_s
        if isinstance(event, Done) and isinstance(event.result, Prefilled):
            self.port.send(Release(event.result.handle))
        if isinstance(event, TERMINAL):
            self._prefills.discard(event.task_id)
            if event.task_id in self._told_s:
                del self._told_s[event.task_id]
                if self._is_on:
                    self._send()

    def _send(self) -> None:
        prefill, decode = next(self._ids), next(self._ids)
        self._prefills.add(prefill)
        self._told_s[decode] = None
        prompt = Segment(random_tokens(self.sizes.prompt_tokens, prefill))
        sampling = Sampling(self.sizes.answer_tokens, ignore_eos=True)
        self._admit(prefill, PrimitiveKind.PREFILLING, PrefillPayload((prompt,)))
        self._admit(decode, PrimitiveKind.DECODING, DecodePayload(prefill, sampling))

    def _admit(
        self, task_id: int, kind: PrimitiveKind, payload: PrefillPayload | DecodePayload
    ) -> None:
        task = Task(task_id, kind, Identity(task_id, "bench"), payload)
        self.port.send(Admit(task, report_every=1))


def run_cells(
    lanes: Lanes,
    costs: Mapping[str, LaneCost],
    limits: Mapping[str, BatchLimits],
    sizes: Sizes,
    seed: int,
) -> list[dict[str, Any]]:
    """Run every cell at every load, decoding alone first; returns a row for each.

    Args:
        lanes: those that CELLS name, with nothing under way.
        costs: of the embedding lanes, timed while nothing else ran.
        limits: of their steps.
        sizes: how much is run.
        seed: of arrivals and lengths; the same for all cells of a load.
    """
    model = LaneModel(DEVICE, costs[DEVICE].cost, (1.0,), limits[DEVICE])
    capacity = model.rate(MEAN_TOKENS)
    rows = [_alone(lanes, sizes)]
    print(_line(rows[0]))
    for load in sizes.loads:
        rate = min(load * capacity, RATE_MAX)
        queries = traffic(rate, sizes.seconds, sizes.slo_s, random.Random(seed))
        print(f"\n{load:g}x of {capacity:.0f}/s: {rate:.0f}/s of {MEAN_TOKENS} tokens")
        for cell in CELLS:
            books = [_book(costs[name], limits[name]) for name in cell.lanes]
            row = _embedded(lanes, cell, books, queries, sizes)
            rows.append({"load": load, "rate": rate, **row})
            print(_line(rows[-1]), flush=True)
    return rows


def headline(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return time per token and embedding's latency by cell, at the highest load."""
    highest = max(float(row["load"]) for row in rows)
    at = {str(row["cell"]): row for row in rows if row["load"] in (0.0, highest)}
    found = {
        "tpot_alone_p99_ms": at["decoding alone"]["tpot_p99_ms"],
        "tpot_p99_ms": at["decoding"]["tpot_p99_ms"],
        "tpot_spill_p99_ms": at["decoding, spill"]["tpot_p99_ms"],
        "tpot_long_steps_p99_ms": at["decoding, long steps"]["tpot_p99_ms"],
        "embed_idle_p99_ms": at["idle"]["embed_p99_ms"],
        "embed_p99_ms": at["decoding"]["embed_p99_ms"],
        "embed_spill_p99_ms": at["decoding, spill"]["embed_p99_ms"],
        "idle_spill_gain": _gain(at["idle, spill"], at["idle"]),
        "spill_gain": _gain(at["decoding, spill"], at["decoding"]),
    }
    return {name: float(value) for name, value in found.items()}


def _alone(lanes: Lanes, sizes: Sizes) -> dict[str, Any]:
    """Decode with no embedding beside it."""
    decoding = Decoding(lanes.ports[LLM], lanes.clock, sizes)
    decoding.start()
    until_s = lanes.clock.now_s() + sizes.seconds
    while lanes.clock.now_s() < until_s:
        lanes.wait(until_s)
        decoding.take_in()
    _drain(lanes, decoding)
    return {"load": 0.0, "cell": "decoding alone", **_times("tpot", decoding.gaps_s)}


def _drain(lanes: Lanes, decoding: Decoding) -> None:
    decoding.stop()
    while not decoding.is_idle:
        lanes.wait(math.inf)
        decoding.take_in()


def _embedded(
    lanes: Lanes,
    cell: Cell,
    books: Sequence[LaneQueue],
    queries: Sequence[Query],
    sizes: Sizes,
) -> dict[str, Any]:
    """Serve the queries as they come, with the LLM decoding meanwhile where the cell says so."""
    clock, tally, latencies_s = lanes.clock, Tally(), []
    decoding = Decoding(lanes.ports[LLM], clock, sizes)
    pool = LanePool(
        "embedding",
        [lanes.ports[name] for name in cell.lanes],
        QueueManager(books),
        TokenEstimate(256),
        clock,
        is_up=lambda port: True,
        credits=Credits(ROWS_MAX),
    )
    open_queries = 0

    def ended(due_s: float) -> Callable[[Event], None]:
        def count(event: Event) -> None:
            nonlocal open_queries
            open_queries -= 1
            if isinstance(event, Failed):
                raise EngineError(event.message, engine=pool.name, request_ids=())
            latencies_s.append(clock.now_s() - due_s)
            tally.late += latencies_s[-1] > sizes.slo_s
            tally.in_time += latencies_s[-1] <= sizes.slo_s

        return count

    def wait(until_s: float) -> None:
        lanes.wait(until_s)
        pool.frames()
        decoding.take_in()

    if cell.decodes:
        decoding.start()
    started_s = clock.now_s()
    for query in queries:
        due_s = started_s + query.arrival_s
        while clock.now_s() < due_s:
            wait(due_s)
        tally.offered += 1
        text = WORD * max(1, query.tokens - 2)
        left_s = due_s + query.slo_s - clock.now_s()
        try:
            pool.submit(EmbedPayload((text,)), ended(due_s), seconds_left=left_s, next_request=1)
            open_queries += 1
        except (Busy, InputError):
            tally.busy += 1
    while open_queries:
        wait(math.inf)
    tally.ended_s = clock.now_s() - started_s
    _drain(lanes, decoding)
    return {
        "cell": cell.name,
        "busy_share": tally.busy / max(1, tally.offered),
        "late_share": tally.late_share,
        "goodput": tally.goodput,
        **_times("embed", latencies_s),
        **(_times("tpot", decoding.gaps_s) if cell.decodes else {}),
    }


def _book(cost: LaneCost, limits: BatchLimits) -> LaneQueue:
    known = LaneCost(cost.lane, cost.cost, cost.margin)
    return LaneQueue(cost.lane, known, limits.tokens_max, ROWS_MAX)


def _times(name: str, seconds: Sequence[float]) -> dict[str, float]:
    """Return median and 99th percentile [ms]; nothing was timed: none."""
    if not seconds:
        return {f"{name}_p50_ms": math.nan, f"{name}_p99_ms": math.nan}
    p50, p99 = np.quantile(seconds, (0.5, 0.99)) * 1e3
    return {f"{name}_p50_ms": float(p50), f"{name}_p99_ms": float(p99)}


def _gain(with_spill: Mapping[str, Any], without: Mapping[str, Any]) -> float:
    """Return what spill adds to the answers in time, as a share."""
    return float(with_spill["goodput"]) / max(float(without["goodput"]), 1e-9) - 1


def _line(row: Mapping[str, Any]) -> str:
    line = f"  {row['cell']:<21}"
    if "goodput" in row:
        line += (
            f" busy {row['busy_share']:6.1%}, late {row['late_share']:6.2%}, {row['goodput']:7.1f} "
            f"in time/s, embed p50 {row['embed_p50_ms']:.1f} p99 {row['embed_p99_ms']:.1f} ms"
        )
    if "tpot_p99_ms" in row:
        line += f", token p50 {row['tpot_p50_ms']:.2f} p99 {row['tpot_p99_ms']:.2f} ms"
    return line
