"""The extractor's training texts hold none of the texts that measure it."""

import hashlib
import json

import pytest
from extractor_training.answer_spans import holds_answer
from extractor_training.manuals import SOURCE as MANUALS
from extractor_training.sources import MUSIQUE, SQUADSHIFTS
from extractor_training.split import Split, load_split
from extractor_training.training_list import counts, digest, training_list
from extractor_training.word_index import WordIndex

from heddle.core.errors import InputError

pytestmark = pytest.mark.slow

# of the ids of the test questions in their order: figures of other ones don't compare
TEST_QUESTIONS = "6003ea3b718946cc63fd96424dfbf4540a2d0df221c76558f19999834bb17caf"
SOURCES = {
    SQUADSHIFTS,
    MUSIQUE,
    "nq",
    "ottqa",
    "squadshifts_amazon",
    "squadshifts_reddit",
    "xquad_en",
    MANUALS,
}


@pytest.fixture(scope="module")
def split() -> Split:
    """Read when the first test wants it: collecting tests takes long enough."""
    try:
        return load_split()
    except InputError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def lessons(split):
    questions = [row.question for row in split.train]
    index = WordIndex(list(split.corpus.values()), questions)
    return training_list(split, index, written=())  # those are of other pages than all of these


def test_the_test_questions_are_always_the_same(split):
    keys = json.dumps([row.key for row in split.test])
    assert hashlib.sha256(keys.encode()).hexdigest() == TEST_QUESTIONS


def test_no_question_and_no_title_serves_two_purposes(split):
    parts = (split.train, split.dev, split.test)
    for name in ("key", "title"):
        values = [
            {row.key if name == "key" else row.passage.title for row in part} for part in parts
        ]
        assert not values[0] & values[1]
        assert not values[0] & values[2]
        assert not values[1] & values[2]


def test_squadshifts_is_held_back_by_whole_articles(split):
    held = {row.passage.title for row in split.test if row.source == SQUADSHIFTS}
    assert len(held) > 1
    assert not any(row.passage.title in held for row in (*split.train, *split.dev))


def test_nothing_else_is_trained_on(lessons):
    assert set(counts(lessons)) <= {*SOURCES, "negatives"}


def test_no_lesson_shows_a_passage_of_a_held_question(lessons, split):
    held = (*split.dev, *split.test)
    titles = {row.passage.title for row in held}
    texts = {row.passage.text for row in held}
    for lesson in lessons:
        for passage in (lesson.row.passage, *lesson.negatives):
            assert passage.text not in texts
            assert lesson.row.source == MANUALS or passage.title not in titles
            assert passage.key not in split.barred


def test_no_searched_negative_holds_an_accepted_answer(lessons):
    for lesson in lessons:
        if lesson.row.source != MANUALS:  # there the same value is another parameter's
            assert not any(holds_answer(p.text, lesson.row.answers) for p in lesson.negatives)


def test_the_digest_tells_lists_apart(lessons):
    assert digest(lessons) == digest(list(lessons))
    assert digest(lessons[1:]) != digest(lessons)
