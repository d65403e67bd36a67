import pytest

from benchmarks.coscheduling.generations import Difference, Generations, differences, lacking
from heddle.core.commands import Admit
from heddle.core.frames import Done, Frame
from heddle.core.payloads import DecodePayload, PrefillPayload, Sampling, Segment
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import FinishReason, Generated
from heddle.core.tasks import Identity, Task


def noted(*generated: tuple[tuple[int, ...], tuple[int, ...]]) -> Generations:
    """Generations of these prompts and outputs, as a port would have seen them."""
    found = Generations()
    for number, (prompt, output) in enumerate(generated):
        prefill, decode = 2 * number, 2 * number + 1
        found.sent(task(prefill, PrefillPayload((Segment(prompt),))))
        found.sent(task(decode, DecodePayload(prefill, Sampling())))
        end = Done(decode, Generated("", output, FinishReason.STOP))
        found.told(Frame("llm", 1, 0.5, (end,)))
    return found


def task(task_id: int, payload: PrefillPayload | DecodePayload) -> Admit:
    return Admit(Task(task_id, PrimitiveKind.PREFILLING, Identity(task_id, "node"), payload))


def test_what_goes_by_is_noted_by_its_prompt() -> None:
    found = noted(((1, 2), (7,)), ((3,), (8, 9)))
    assert found.outputs == {(1, 2): (7,), (3,): (8, 9)}
    assert found.worked_s == {"llm": 1.0}


def test_equal_work_has_no_difference() -> None:
    one, other = noted(((1,), (7, 8)), ((2,), ())), noted(((2,), ()), ((1,), (7, 8)))
    assert differences(one, other) == []
    assert lacking(one, other) == lacking(other, one) == 0


@pytest.mark.parametrize(
    ("mine", "theirs", "common", "tokens"),
    [
        ((7, 8, 9), (7, 5, 9), (7,), (8, 5)),
        ((7, 8), (7,), (7,), (8, None)),
        ((), (7,), (), (None, 7)),
    ],
)
def test_a_difference_says_where_two_outputs_part(
    mine: tuple[int, ...],
    theirs: tuple[int, ...],
    common: tuple[int, ...],
    tokens: tuple[int | None, int | None],
) -> None:
    found = differences(noted(((1, 2), mine)), noted(((1, 2), theirs)))
    assert found == [Difference((1, 2), common, tokens)]


def test_a_prompt_that_one_lacks_is_counted() -> None:
    one, other = noted(((1,), (7,)), ((2,), (7,))), noted(((1,), (7,)))
    assert lacking(other, one) == 1
    assert lacking(one, other) == 0


def ahead(prompt: tuple[int, ...], output: tuple[int, ...]) -> Generations:
    """A generation that was written ahead of its search, as a port would have seen it."""
    found = Generations()
    found.sent(task(1, PrefillPayload((Segment(prompt),), is_speculative=True)))
    found.sent(task(2, DecodePayload(1, Sampling())))
    found.told(Frame("llm", 1, 0.5, (Done(2, Generated("", output, FinishReason.STOP)),)))
    return found


def test_what_was_written_ahead_is_compared_and_may_be_unused() -> None:
    found = ahead((1,), (7,))
    assert (found.outputs, found.ahead) == ({}, {(1,): (7,)})
    assert lacking(found, noted(((1,), (7,)))) == lacking(noted(), found) == 0
    assert lacking(found, noted(((2,), (7,)))) == 1
    assert differences(found, noted(((1,), (8,)))) == [Difference((1,), (), (7, 8))]


def test_a_decode_that_goes_on_behind_written_tokens_is_of_the_prompt_before_them() -> None:
    found = Generations()
    found.sent(task(1, PrefillPayload((Segment((1, 2)), Segment((7,))))))
    found.sent(task(2, DecodePayload(1, Sampling(), continues=1, resumes=1)))
    found.told(Frame("llm", 1, 0.5, (Done(2, Generated("", (7, 8), FinishReason.STOP)),)))
    assert found.outputs == {(1, 2): (7, 8)}


def test_the_number_of_a_guess_may_come_again_for_a_prompt() -> None:
    found = ahead((1,), (7,))
    found.sent(task(1, PrefillPayload((Segment((5,)),))))
    found.sent(task(2, DecodePayload(1, Sampling())))
    found.told(Frame("llm", 1, 0.5, (Done(2, Generated("", (8,), FinishReason.STOP)),)))
    assert found.outputs == {(5,): (8,)}
