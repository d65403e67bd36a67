import pytest

from benchmarks.coscheduling.asks import Ask
from benchmarks.coscheduling.bed import OWN
from benchmarks.coscheduling.blocks import Block, Ran
from benchmarks.coscheduling.steady_load import APPROX, f1_drop

ACCEPTED = {"who?": ["Ada Lovelace"], "where?": ["London"]}


def ran(contender: str, *answers: str) -> Ran:
    asks = tuple(Ask("oneshot", question, None, 0.0) for question in ACCEPTED)
    return Ran(Block("light", contender, 0, (1.0, 1.0), 0.0), asks, answers)


def test_the_drop_is_of_answers_to_the_same_questions() -> None:
    found = f1_drop(
        [
            ran(OWN, "Ada Lovelace", "London"),
            ran("asyncio_fifo", "nobody", "nowhere"),
            ran(APPROX, "Ada Lovelace", "Paris"),
        ],
        ACCEPTED,
    )
    assert found["exact_f1"] == 1.0
    assert found["approx_f1"] == 0.5
    assert found["approx_f1_drop"] == pytest.approx(0.5)
    assert found["f1_questions"] == 2
