"""Embedding beside decoding, on virtual time: what is sent, what is timed, what is left."""

import math
from pathlib import Path

import pytest

from benchmarks import embed_admission
from benchmarks.support.beside_decoding import (
    CELLS,
    CPU,
    DEVICE,
    LLM,
    UNBOUNDED,
    Decoding,
    Sizes,
    headline,
    run_cells,
)
from benchmarks.support.device_lanes import lane_specs
from heddle.app.assembly.embedding_lanes import SHARED_STEP_S
from heddle.core.commands import Admit, Cancel, Command, Release
from heddle.core.credits import Credits
from heddle.core.errors import ConfigError, EngineError
from heddle.core.frames import Cancelled, Done, Event, Failed, Frame, Progress
from heddle.core.payloads import PrefillPayload
from heddle.core.results import FinishReason, Generated, KvHandle, Prefilled
from heddle.costs.batch_cost import BatchCost
from heddle.costs.lane_cost import LaneCost
from heddle.encoder.batch_scheduler import BatchLimits
from heddle.engines.embedding.engine import EmbeddingEngine
from heddle.hosts.inline import InlineHost
from heddle.hosts.machine import MachineFacts
from tests.helpers.exact_embedder import ExactWorker, Time

TICK_S = 0.01
LIMITS = BatchLimits()
COSTS = {
    DEVICE: BatchCost(7e-3, 1e-4),
    UNBOUNDED: BatchCost(7e-3, 1e-4),
    CPU: BatchCost(9e-3, 9e-4),
}
SIZES = Sizes(1.0, 0.5, (0.3, 1.5), sequences=3, prompt_tokens=4, answer_tokens=5)


class DecodingPort:
    """A token for each sequence at every tick."""

    name, credits = LLM, Credits(64)

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.left: dict[int, int] = {}
        self.held: set[int] = set()
        self.most = 0
        self.fails = False

    def send(self, command: Command) -> None:
        match command:
            case Admit(task=task) if isinstance(task.payload, PrefillPayload):
                self.held.add(task.task_id)
                handle = KvHandle(LLM, 1, task.task_id)
                self.events.append(Done(task.task_id, Prefilled(handle, 4, 0)))
            case Admit(task=task):
                self.left[task.task_id] = task.payload.sampling.max_tokens
                self.most = max(self.most, len(self.left))
            case Cancel(task_id=task_id) if self.left.pop(task_id, None) is not None:
                self.events.append(Cancelled(task_id))
            case Release(handle=handle):
                self.held.discard(handle.id)

    def tick(self) -> None:
        for task_id in list(self.left):
            self.events.append(Progress(task_id, (7,)))
            self.left[task_id] -= 1
            if not self.left[task_id]:
                del self.left[task_id]
                done = Generated("", (7,), FinishReason.LENGTH)
                self.events.append(Failed(task_id, "lost") if self.fails else Done(task_id, done))

    def frames(self) -> list[Frame]:
        events, self.events = self.events, []
        return [Frame(LLM, 1, TICK_S, tuple(events))]


class VirtualLanes:
    """All lanes make a step in each tick."""

    def __init__(self) -> None:
        self.clock, self.llm = Time(), DecodingPort()
        self.hosts = {}
        for name, cost in COSTS.items():
            worker = ExactWorker(cost)
            engine = EmbeddingEngine(name, 1, worker, worker.clock, limits=LIMITS)
            self.hosts[name] = InlineHost(engine, 4096, self.clock)
        self.ports = {**self.hosts, LLM: self.llm}

    def wait(self, until_s: float) -> None:
        for host in self.hosts.values():
            host.step_once(self.clock.time_s)
        self.llm.tick()
        self.clock.time_s = min(until_s, self.clock.time_s + TICK_S)


def test_every_cell_answers_or_refuses_all_and_times_tokens_only_where_it_decodes() -> None:
    lanes = VirtualLanes()
    costs = {name: LaneCost(name, cost) for name, cost in COSTS.items()}
    rows = run_cells(lanes, costs, dict.fromkeys(costs, LIMITS), SIZES, seed=1)
    names = ["decoding alone", *(cell.name for cell in CELLS), *(cell.name for cell in CELLS)]
    assert [row["cell"] for row in rows] == names
    for row in rows[1:]:
        assert ("tpot_p99_ms" in row) == str(row["cell"]).startswith("decoding")
        assert row["goodput"] > 0
        assert row["embed_p50_ms"] <= row["embed_p99_ms"]
    assert rows[0]["tpot_p99_ms"] == pytest.approx(TICK_S * 1e3)
    assert lanes.llm.most == SIZES.sequences
    assert not lanes.llm.left
    assert not lanes.llm.held
    found = headline(rows)
    assert all(isinstance(value, float) and math.isfinite(value) for value in found.values())
    assert found["tpot_p99_ms"] == rows[-3]["tpot_p99_ms"]


def decode(lanes: VirtualLanes, decoding: Decoding, ticks: int) -> None:
    decoding.start()
    for _ in range(ticks):
        lanes.wait(math.inf)
        decoding.take_in()


def test_a_sequence_that_ends_is_followed_by_another_until_it_is_stopped() -> None:
    lanes = VirtualLanes()
    decoding = Decoding(lanes.llm, lanes.clock, SIZES)
    decode(lanes, decoding, 4 * SIZES.answer_tokens)
    assert len(lanes.llm.left) == SIZES.sequences
    # Of every answer the first token has none before it.
    assert len(decoding.gaps_s) == 4 * SIZES.sequences * (SIZES.answer_tokens - 1)
    decoding.stop()
    assert not decoding.is_idle
    decoding.take_in()
    assert decoding.is_idle


def test_a_sequence_that_fails_ends_the_run() -> None:
    lanes = VirtualLanes()
    lanes.llm.fails = True
    decoding = Decoding(lanes.llm, lanes.clock, SIZES)
    with pytest.raises(EngineError, match="lost"):
        decode(lanes, decoding, SIZES.answer_tokens)


def test_the_lanes_are_those_of_the_cells_and_only_one_has_short_steps() -> None:
    machine = MachineFacts(tuple(range(16)), 8.0, "Test", frozenset(), 1 << 30, 1 << 30, ("GPU",))
    specs = lane_specs("cuda", "bfloat16", SIZES, Path("encoder"), Path("decoder"), machine)
    lanes = {spec.name: spec for spec in specs}
    assert set(lanes) == {LLM, *(name for cell in CELLS for name in cell.lanes)}
    settings = {name: spec.engines[0].settings for name, spec in lanes.items()}
    assert settings[DEVICE].step_s_max == SHARED_STEP_S
    assert settings[UNBOUNDED].step_s_max == settings[CPU].step_s_max == math.inf
    devices = {name: its.device for name, its in settings.items()}
    assert devices == {DEVICE: "cuda", UNBOUNDED: "cuda", CPU: "cpu", LLM: "cuda"}
    assert lanes[CPU].threads == 5


@pytest.mark.parametrize("device", ["cuda", "tpu"])
def test_without_that_device_it_is_refused(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ConfigError, match="--device"):
        embed_admission.run(quick=True, seed=0, device=device)
