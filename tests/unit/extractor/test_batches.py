import itertools
import random

from extractor_training.batches import Place, epoch_order, exercise, steps
from extractor_training.training_list import Lesson

from tests.helpers.small_extractor import lessons, row


def drawn(tokenizer, start, count):
    endless = steps(tokenizer, lessons(), start, n_tokens=60, n_negatives=1, seed=3)
    return list(itertools.islice(endless, count))


def test_an_exercise_holds_the_answer_first_and_then_what_does_not_answer(tokenizer):
    ours = exercise(tokenizer, lessons()[0], 2, random.Random(0))
    assert len(ours.windows) == 3
    ((first, last),) = ours.spans[0]
    window = ours.windows[0]
    text = lessons()[0].row.passage.text
    assert text[window.offsets[first][0] : window.offsets[last][1]] == "Lisbon"
    assert ours.spans[1:] == [[], []]


def test_a_lesson_whose_answer_is_too_long_is_left_out(tokenizer):
    text = " ".join(f"word{n}" for n in range(30))
    lesson = Lesson(row("r", "what?", text, [text]), (), 1.0)
    assert exercise(tokenizer, lesson, 1, random.Random(0)) is None


def test_a_lesson_of_half_a_share_comes_every_second_epoch():
    orders = [epoch_order(lessons(), 3, epoch) for epoch in range(4)]
    for place, lesson in enumerate(lessons()):
        assert sum(place in order for order in orders) == 4 * lesson.share


def test_the_list_goes_on_where_a_place_says(tokenizer):
    whole = drawn(tokenizer, Place(), 9)
    for cut in (2, 5):
        rest = drawn(tokenizer, whole[cut - 1][1], 9 - cut)
        assert [(one.windows, one.spans) for step, _ in rest for one in step] == [
            (one.windows, one.spans) for step, _ in whole[cut:] for one in step
        ]
        assert rest[-1][1] == whole[-1][1]
