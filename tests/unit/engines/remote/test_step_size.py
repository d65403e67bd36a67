"""A server's calls grow as long as it answers them quickly."""

from heddle.engines.remote.step_size import TOKENS_MAX, TOKENS_MIN, StepSize


def learnt(*calls: tuple[int, float]) -> int:
    size = StepSize()
    for tokens, seconds in calls:
        size.learn(tokens, seconds)
    return size.tokens


def test_quick_calls_are_doubled_up_to_a_bound() -> None:
    assert learnt((400, 0.3)) == 2 * TOKENS_MIN
    assert learnt((400, 0.3), (900, 0.4)) == 4 * TOKENS_MIN
    assert learnt(*[(TOKENS_MAX, 0.1)] * 20) == TOKENS_MAX


def test_slow_calls_are_halved_and_those_of_about_a_second_stay() -> None:
    grown = [(400, 0.3), (900, 0.4)]
    assert learnt(*grown, (1800, 0.8)) == 4 * TOKENS_MIN
    assert learnt(*grown, (1800, 1.1)) == 2 * TOKENS_MIN
    assert learnt((400, 9.0)) == TOKENS_MIN


def test_a_short_question_says_nothing_of_many_texts() -> None:
    assert learnt((20, 0.2)) == TOKENS_MIN
    assert learnt((400, 0.3), (20, 5.0)) == 2 * TOKENS_MIN
