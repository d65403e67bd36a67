"""Which of several lanes gets a prompt."""

from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.core.payloads import AskPayload, PrefillPayload, Segment, SegmentRole
from heddle.engines.llm.lanes.lane_choice import BLOCK_TOKENS, REQUESTS_MAX, LaneChoice

BOTH = (0, 1)
LONG = tuple(range(4 * BLOCK_TOKENS))


def prompt(token_ids, *, salt="", reuse=None, chunk=None):
    role = SegmentRole.TEXT if chunk is None else SegmentRole.CHUNK
    segments = (Segment(tuple(token_ids), role, chunk),)
    return PrefillPayload(segments, salt, **({} if reuse is None else {"reuse": reuse}))


def test_the_lane_that_holds_less_is_next_whatever_the_requests_are():
    choice = LaneChoice(2)
    lanes = []
    for number, length in enumerate((100, 10, 10, 10, 10)):
        lane = choice.choose(prompt(range(1000 * number, 1000 * number + length)), 2 * number, BOTH)
        choice.hold(number, lane, length)
        lanes.append(lane)
    assert lanes == [0, 1, 1, 1, 1]
    choice.let_go(0)
    assert choice.choose(prompt((7, 8)), 10, BOTH) == 0


def test_an_answer_counts_as_held_until_it_is_over():
    choice = LaneChoice(2)
    choice.hold(1, 0, 5)
    choice.hold(1, 0, 200)
    assert choice.choose(prompt((1,)), 0, BOTH) == 1
    choice.let_go(1)
    choice.let_go(1)
    assert choice.choose(prompt((2,)), 2, BOTH) == 0


def test_equal_lanes_take_turns():
    choice = LaneChoice(3)
    assert [choice.choose(prompt((n,)), n, (0, 1, 2)) for n in range(6)] == [0, 1, 2, 0, 1, 2]


def test_a_beginning_in_common_keeps_prompts_together_for_as_long_as_it_pays():
    choice = LaneChoice(2)
    assert choice.choose(prompt(LONG), 1, BOTH) == 1
    for number in range(2, 5):
        lane = choice.choose(prompt((*LONG, number)), 2 * number, BOTH)
        choice.hold(number, lane, len(LONG) // 2)
        assert lane == (1 if number < 4 else 0)
    assert choice.choose(prompt(LONG, salt="other tenant"), 9, BOTH) == 0


def test_chunks_count_where_their_kv_may_be_reused():
    reuse = KvReuse(ReusePolicy.FULL_REUSE)
    for may_reuse in (True, False):
        choice = LaneChoice(2)
        how = reuse if may_reuse else None
        choice.choose(prompt((1, 2, 3), chunk=5, reuse=reuse), 1, BOTH)
        assert choice.choose(prompt((9, 9, 9), chunk=5, reuse=how), 2, BOTH) == int(may_reuse)


def test_a_request_stays_with_its_question_and_its_earlier_prompts():
    choice = LaneChoice(2)
    assert choice.choose(AskPayload((1, 2)), 3, BOTH) == 1
    assert choice.choose(prompt((5, 6)), 3, BOTH) == 1
    choice.hold(1, 1, 100)
    assert choice.choose(prompt((5, 6, 7)), 3, BOTH) == 0, "but not where it would wait"


def test_a_lane_that_a_request_has_failed_at_is_left_out_if_there_is_another():
    choice = LaneChoice(2)
    assert choice.choose(prompt((5, 6)), 0, BOTH) == 0
    choice.fail(0)
    assert choice.choose(prompt((5, 6)), 0, BOTH) == 1
    choice.fail(0)
    assert choice.choose(prompt((5, 6)), 0, (1,)) == 1
    choice.fail(77)  # never seen


def test_only_the_newest_requests_are_remembered():
    choice = LaneChoice(2)
    for number in range(0, 2 * REQUESTS_MAX + 2, 2):
        assert choice.choose(prompt((1,)), number, BOTH) == 0
        choice.fail(number)
    assert choice.choose(prompt((1,)), 2, BOTH) == 1, "the oldest that is remembered"
    assert choice.choose(prompt((1,)), 0, BOTH) == 0
