from collections import Counter

import pytest

from benchmarks.coscheduling.asks import NPROBES, WORKFLOWS, blocks_of

QUESTIONS = [f"question {number}" for number in range(500)]


def test_blocks_have_equal_shares_and_no_question_twice() -> None:
    blocks = blocks_of(QUESTIONS, 40, 6, 2.0, 0, NPROBES)
    assert len({ask.question for block in blocks for ask in block}) == 240
    for block in blocks:
        assert Counter(ask.workflow for ask in block) == dict.fromkeys(WORKFLOWS, 8)
        assert {ask.nprobe for ask in block} <= set(NPROBES)


def test_arrivals_come_at_the_rate_and_equal_seeds_repeat() -> None:
    (block,) = blocks_of(QUESTIONS, 400, 1, 5.0, 1)
    assert block[-1].at_s == pytest.approx(400 / 5.0, rel=0.2)
    assert [ask.at_s for ask in block] == sorted(ask.at_s for ask in block)
    assert [block] == blocks_of(QUESTIONS, 400, 1, 5.0, 1)
    assert {ask.nprobe for ask in block} == {None}


def test_without_a_rate_all_come_at_once() -> None:
    (block,) = blocks_of(QUESTIONS, 5, 1, 0.0, 0)
    assert {ask.at_s for ask in block} == {0.0}


def test_a_mix_has_as_many_shares_as_it_names() -> None:
    mix = ["oneshot", "oneshot", "oneshot", "irg"]
    (block,) = blocks_of(QUESTIONS, 40, 1, 2.0, 0, mix=mix)
    assert Counter(ask.workflow for ask in block) == {"oneshot": 30, "irg": 10}
