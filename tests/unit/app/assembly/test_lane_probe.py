"""Bursts on a lane that answers by a cost: start-up costs, depths, failures that are named."""

import logging
from collections.abc import Callable

import numpy as np
import pytest
from tokenizers import Tokenizer

from heddle.app.assembly import lane_probe
from heddle.app.assembly.lane_probe import COLD_START_S_MAX, WORD, LaneProbe, text_of
from heddle.core.commands import Admit
from heddle.core.credits import Credits
from heddle.core.errors import EngineError
from heddle.core.frames import Done, Failed, Frame
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Vectors
from heddle.costs.batch_cost import BatchCost, BatchShape
from heddle.costs.depth_probing import DepthProbing
from heddle.engines.embedding.build import default_model_dir

COST = BatchCost(7e-3, 3e-4)


class Lane:
    """Answers each text in a step of its own; words are tokens, and so are two special ones."""

    name, kinds, credits, epoch = "lane", frozenset({PrimitiveKind.EMBEDDING}), Credits(8), 1

    def __init__(self, fails: bool = False, slower: float = 1.0) -> None:
        self.time_s, self.fails, self.slower = 0.0, fails, slower
        self.texts: list[str] = []
        self.waiting: list[Frame] = []
        self.wake: Callable[[], None] = lambda: None

    def now_s(self) -> float:
        return self.time_s

    def send(self, command: Admit) -> None:
        [text] = command.task.payload.texts
        self.texts.append(text)
        tokens = len(text.split()) + 2
        shape = BatchShape.uniform(1, tokens)
        seconds = self.slower * COST.predict_s(shape)
        self.time_s += seconds
        result = Vectors(np.ones((1, 2), np.float32), tokens)
        task_id = command.task.task_id
        event = Failed(task_id, "broken") if self.fails else Done(task_id, result)
        features = {"tokens": shape.tokens, "squares": shape.squares}
        self.waiting.append(Frame("lane", 1, seconds, (event,), features))
        self.wake()

    def frames(self) -> list[Frame]:
        taken, self.waiting = self.waiting, []
        return taken

    def subscribe(self, wake: Callable[[], None]) -> None:
        self.wake = wake


def test_a_burst_is_timed_to_its_last_answer_and_no_text_comes_twice() -> None:
    lane = Lane()
    burst = LaneProbe(lane, lane).burst(["loom"] * 5)
    assert burst.seconds == pytest.approx(5 * COST.predict_s(BatchShape.uniform(1, 6)))
    assert (burst.tokens, len(burst.steps)) == (30, 5)
    assert len(set(lane.texts)) == 5


def test_probes_of_one_lane_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_probe, "ANSWER_S_MAX", 0.1)
    lane = Lane()
    probes = [LaneProbe(lane, lane) for _ in range(2)]
    for probe in (*probes, *probes):
        assert probe.burst(["loom"]).tokens == 6


def test_a_cold_start_finds_the_cost(caplog: pytest.LogCaptureFixture) -> None:
    lane = Lane()
    caplog.set_level(logging.INFO, logger="heddle.app.assembly.lane_probe")
    found = LaneProbe(lane, lane).cold_start()
    assert found.cost.latency_intercept_s == pytest.approx(7e-3)
    assert found.cost.token_s == pytest.approx(3e-4)
    assert lane.time_s < COLD_START_S_MAX
    assert not caplog.records


@pytest.mark.parametrize("slower", [3, 8, 30])
def test_a_cold_start_of_a_large_model_is_as_short(slower: float) -> None:
    """30 is about what BERT-large takes over MiniLM."""
    lane = Lane(slower=slower)
    found = LaneProbe(lane, lane).cold_start()
    assert found.cost.token_s == pytest.approx(slower * 3e-4)
    assert found.cost.latency_intercept_s == pytest.approx(slower * 7e-3)
    assert lane.time_s < COLD_START_S_MAX


def test_a_lane_too_slow_to_be_timed_in_time_is_timed_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lane = Lane(slower=400)
    caplog.set_level(logging.INFO, logger="heddle.app.assembly.lane_probe")
    found = LaneProbe(lane, lane).cold_start()
    assert found.cost.token_s == pytest.approx(400 * 3e-4)
    assert f"timing it took {lane.time_s:.1f} s instead of 2.0 s" in caplog.text


def test_depths_are_found_by_bursts_from_outside() -> None:
    lane = Lane()
    probing = DepthProbing((1.0,), 75, 64)
    LaneProbe(lane, lane).find_depths(probing)
    alone_s = COST.predict_s(BatchShape.uniform(1, 75))
    assert probing.depth(1.0).queries == int(1.0 / alone_s)


def test_a_failure_is_told() -> None:
    lane = Lane(fails=True)
    with pytest.raises(EngineError, match=r"a probe failed.*broken"):
        LaneProbe(lane, lane).burst(["loom"])


@pytest.mark.parametrize("tokens", [16, 75, 250])
def test_queries_of_bursts_are_as_long_as_they_are_called(tokens: int) -> None:
    """To the default embedder, the first one and the 9,999th."""
    lane = Lane()
    LaneProbe(lane, lane).burst([text_of(tokens)] * 9_999)
    tokenizer = Tokenizer.from_file(str(default_model_dir() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    for text in (lane.texts[0], lane.texts[-1]):
        assert len(tokenizer.encode(text).ids) == tokens
    assert len(tokenizer.encode(WORD * 300).ids) == 300 + 2
