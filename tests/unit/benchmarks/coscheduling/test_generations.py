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
