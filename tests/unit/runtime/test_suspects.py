"""A request that has ended lanes is refused: it can't end the server."""

import itertools

import pytest

from heddle.core.errors import EngineError, InputError, Unreachable
from heddle.core.frames import Failed
from heddle.runtime import suspects
from heddle.runtime.supervision import (
    WHILE_STARTING,
    GiveUp,
    Restart,
    lost_message,
    refused_message,
)
from tests.helpers.fake_ports import Bench, Call

POISON = "an input that ends the lane"
CRASH = "exit code -11, SIGSEGV"
EPOCHS = itertools.count(2)


def dies(bench: Bench, *, texts: str = POISON) -> list[int]:
    """Have the embedding lane die of each task with this text; returns a list that grows."""
    deaths: list[int] = []

    def on_admit(task):
        if texts not in task.payload.texts:
            return None
        deaths.append(task.task_id)
        message = lost_message("embedding", CRASH, Restart(next(EPOCHS), 0.1))
        return (Failed(task.task_id, message),)

    bench.embedding.on_admit = on_admit
    return deaths


def ask(bench: Bench, search, question: str = POISON, **how: object) -> Call:
    return bench.submit(search, {"query": question}, **how)


def refusal(bench: Bench, search, **how: object) -> str:
    with pytest.raises(InputError) as raised:
        ask(bench, search, **how)
    return str(raised.value)


def test_a_poison_input_ends_two_lanes_and_no_more(bench, search):
    deaths = dies(bench)
    error = ask(bench, search).error
    assert isinstance(error, InputError)
    assert "a lane died 2 times while this request was under way, the last time with no" in str(
        error
    )
    assert "exit code -11" in str(error)
    assert len(deaths) == 2
    for _ in range(10):
        assert "refused for another 60 s: change its inputs" in refusal(bench, search)
    assert len(deaths) == 2
    bench.assert_idle()


def test_other_requests_go_on(bench, search):
    dies(bench)
    ask(bench, search)
    assert ask(bench, search, "another one").answer
    assert ask(bench, search, tenant="another").error, "it was not that tenant's"


def test_it_may_try_again_later_and_is_refused_for_longer_each_time(bench, search):
    deaths = dies(bench)
    ask(bench, search)
    for count, wait_s in ((3, 120), (4, 240)):
        bench.clock.time_s += wait_s / 2
        assert isinstance(ask(bench, search).error, InputError)
        assert len(deaths) == count
        assert f"another {wait_s} s" in refusal(bench, search)


def test_one_that_was_answered_since_is_no_suspect(bench, search):
    deaths = dies(bench)
    left = bench.embedding.on_admit

    def once(task):
        return left(task) if not deaths else None

    bench.embedding.on_admit = once
    assert ask(bench, search).answer.receipt.retries == 1
    bench.embedding.on_admit = left
    deaths.clear()
    assert isinstance(ask(bench, search).error, InputError)
    assert len(deaths) == 2, "the death before its answer is forgotten"


def test_one_death_counts_once(bench, search):
    message = lost_message("embedding", CRASH, Restart(2, 0.1))
    bench.embedding.on_admit = lambda task: (Failed(task.task_id, message),)
    assert isinstance(ask(bench, search).error, EngineError)


@pytest.mark.parametrize(
    "message",
    [
        "it broke",
        "lane lost: frames of lane llm were lost on the way",
        refused_message(lost_message("llm", "killed", GiveUp("given up"))),
    ],
)
def test_other_failures_are_no_deaths(bench, search, message):
    number = iter(range(100))
    bench.embedding.on_admit = lambda task: (Failed(task.task_id, f"{message} {next(number)}"),)
    for _ in range(3):
        assert isinstance(ask(bench, search).error, EngineError)


def test_a_lane_that_dies_while_it_starts_accuses_no_request_that_waits_for_it(bench, search):
    epoch = iter(range(2, 100))

    def never_starts(task):
        reason = f"{WHILE_STARTING}corpus: the database can't be reached"
        message = lost_message("embedding", reason, Restart(next(epoch), 0.1))
        return (Failed(task.task_id, message, is_away=True),)

    bench.embedding.on_admit = never_starts
    for _ in range(10):
        assert isinstance(ask(bench, search).error, Unreachable)


def test_no_more_than_some_are_remembered(bench, search, monkeypatch):
    monkeypatch.setattr(suspects, "SUSPECTS_MAX", 3)
    for number in range(5):
        deaths = dies(bench, texts=f"poison {number}")
        ask(bench, search, f"poison {number}")
        assert len(deaths) == 2
    assert "refused" in refusal(bench, search, question="poison 4")
    assert ask(bench, search, "poison 0").answer, "the oldest is forgotten"
