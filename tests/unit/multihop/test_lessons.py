"""The adapter's training prompts hold no question and no article that measures it."""

import random

import pytest
from multihop_training.lessons import MULTIHOP, Lessons, counts, digest, load_lessons
from multihop_training.samples import END_OF_TURN, sample_of

from heddle.core.errors import InputError
from heddle.engines.llm.text.prompt_tokenizer import PromptTokenizer
from heddle.evals.catalogue import WIKI_TEST, load_dataset
from tests.helpers.tiny_server import write_model

pytestmark = pytest.mark.slow

DIGEST = "bec6ed7aa6f5c974bff0aa848405c04c31d0bafa039868e03a8b19ce6b7b7746"  # as in the card


@pytest.fixture(scope="module")
def lessons() -> Lessons:
    """Made when the first test wants them: it takes ten seconds."""
    try:
        return load_lessons()
    except InputError as error:
        pytest.skip(str(error))


def test_the_list_is_always_the_same(lessons):
    assert digest(lessons.train) == DIGEST
    assert counts(lessons.train)["hotpotqa"] > 300
    assert all(one.is_multihop for one in lessons.dev)


def test_no_prompt_shows_an_article_that_answers_a_held_question(lessons):
    held = load_dataset(MULTIHOP).questions
    assert len(held) == 240
    ids = {question.id for question in (*held, *load_dataset(WIKI_TEST).questions)}
    gold = {name for question in held for group in question.gold for name in group}
    titles = {p.title for q in held for p in q.passages or () if p.document_id in gold}
    for lesson in lessons.train:
        assert lesson.key.split("/")[0] not in ids
        assert not titles.intersection(p.title for p in (*lesson.gold, *lesson.others))
    shown = {p.title for one in lessons.train for p in one.gold if one.is_multihop}
    assert not shown.intersection(p.title for one in lessons.dev for p in one.gold)


def test_a_prompt_shows_all_that_answers_and_ends_with_the_answer(lessons, tmp_path):
    tokenizer = PromptTokenizer.from_directory(write_model(tmp_path / "model"))
    lesson = lessons.dev[0]
    short, long = (
        sample_of(tokenizer, lesson, tokens, random.Random(0)) for tokens in (1, 100_000)
    )
    answer = (*tokenizer.encode_slot(lesson.answer), END_OF_TURN)
    for sample in (short, long):
        assert sample.ids[sample.answer_start :] == answer
        for passage in lesson.gold:
            text = tokenizer.encode_slot(f"## {passage.title}\n{passage.text}\n\n")
            places = range(len(sample.ids) - len(text))
            assert any(sample.ids[i : i + len(text)] == text for i in places)
    assert len(short.ids) < len(long.ids)
