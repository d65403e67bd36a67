"""What `heddle bench lanes` compares: contenders in turns, and the lanes' own counting."""

import pytest

from benchmarks.lanes import LIMITS, Pair
from benchmarks.support.echo_lane import echo_lane


def test_contenders_take_turns_and_the_first_turn_only_warms_up() -> None:
    asked: list[str] = []

    def figure(contender: str) -> float:
        asked.append(contender)
        return {"process": 2.0, "tcp": 3.0}[contender]

    assert Pair.in_turns(2, ("process", "tcp"), figure) == [Pair(2.0, 3.0)] * 2
    assert asked == ["tcp", "process", "process", "tcp", "tcp", "process"]
    assert Pair(2.0, 3.0).ratio == 1.5


@pytest.mark.slow
def test_a_lane_answers_each_task_once() -> None:
    with echo_lane(LIMITS) as lane:
        assert lane.round_trip_s(5) > 0
        assert lane.cpu_s(200, 16) > 0
        assert lane.cpu_s(3, 16) > 0  # fewer than are to be in flight
        assert lane.is_at_rest
