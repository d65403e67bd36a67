import gzip
import json
import random
import re

import heddle_reader
from training.evaluation_set import evaluation_items, write_items
from training.fillings import Fillings, Split, split_of
from training.phases import PHASES
from training.prompts import NOT_IN_NOTES
from training.questions import Kind
from training.samples import draw_sample

N_ITEMS = 150


def _items():
    return list(evaluation_items(N_ITEMS))


def test_the_set_is_the_same_every_time_and_holds_every_kind_equally():
    items = _items()
    assert items == _items()
    assert items != list(evaluation_items(N_ITEMS, seed=1))
    for kind in Kind:
        assert sum(item.kind is kind for item in items) == N_ITEMS // len(Kind)


def test_answers_stand_in_the_passages():
    for item in _items():
        if item.kind is Kind.NOT_IN_NOTES:
            assert item.answer == NOT_IN_NOTES
        else:
            assert item.answer.lower() in item.prompt().lower()


def test_items_keep_within_sixteen_passages():
    items = _items()
    assert max(len(item.passages) for item in items) <= 16
    assert max(len(item.passages) for item in items) >= 10


def test_coreference_items_name_nobody_where_the_answer_stands():
    for item in _items():
        if item.kind is Kind.COREFERENCE:
            assert any(re.search(r"\d", title) for title, _ in item.passages)


def test_training_and_evaluation_share_no_name_word_or_number():
    train_rng, held_rng = random.Random(0), random.Random(0)
    train, held = Fillings(train_rng, Split.TRAIN), Fillings(held_rng, Split.HELD_OUT)
    kinds = [
        "person",
        "place",
        "org",
        "building",
        "event",
        "ship",
        "thing",
        "award",
        "occupation",
        "instrument",
        "hobby",
        "animal",
        "food",
        "language",
        "colour",
        "material",
        "product",
        "topic",
        "year",
        "number",
        "date",
    ]
    for kind in kinds:
        seen = {train.value(kind) for _ in range(400)}
        assert not seen & {held.value(kind) for _ in range(400)}, kind


def test_training_text_never_holds_an_evaluation_answer_that_is_a_name_or_number():
    rng = random.Random(1)
    recipe = PHASES[-1].recipe
    texts = [piece.text for _ in range(80) for piece in draw_sample(recipe, rng).pieces]
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    for item in _items():
        if item.kind is Kind.SINGLE_HOP and re.fullmatch(r"\d{4}", item.answer):
            assert split_of(item.answer) is Split.HELD_OUT
            assert item.answer not in words


def test_the_shipped_file_is_what_the_generator_writes(tmp_path):
    items = list(evaluation_items(60))
    write_items(tmp_path / "notes.jsonl.gz", items)

    shipped = heddle_reader.reader_notes()
    assert len(shipped) == 1000
    assert shipped[:60] == [json.loads(item.as_json()) for item in items]
    with gzip.open(tmp_path / "notes.jsonl.gz", "rt") as lines:
        assert [json.loads(line) for line in lines] == shipped[:60]
