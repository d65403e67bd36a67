import random
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from training.batches import encode
from training.fillings import Fillings, Split
from training.questions import Kind, ask
from training.samples import Turn, answer_sample
from training.sights import Role
from training.town import town_notes

from tools.demo_corpus.generate import SEED
from tools.demo_corpus.world import draw_world

TOKENIZER = Path(__file__).parents[3] / "models/reader/heddle_reader/model/tokenizer.json"
ALL_KINDS = dict.fromkeys(Kind, 1.0)


def _drawn(seed, n_documents=3):
    rng = random.Random(seed)
    fillings = Fillings(rng, Split.TRAIN)
    notes = town_notes(n_documents, fillings, rng)
    return notes, ask(notes, ALL_KINDS, 30, fillings, rng)


def test_same_seed_same_town():
    assert _drawn(7)[0].render() == _drawn(7)[0].render()
    assert _drawn(7)[0].render() != _drawn(8)[0].render()


def test_every_fact_stands_in_its_passage_and_every_answer_in_its_evidence():
    asked = set()
    for seed in range(60):
        notes, questions = _drawn(seed)
        for passage in notes.passages:
            for fact, sentence in passage.facts.items():
                assert fact.value in sentence
                assert sentence in passage.sentences
        for question in questions:
            asked.add((question.kind, question.steps[-1][1].key if question.steps else ""))
            if question.kind not in (Kind.NOT_IN_NOTES, Kind.COMPARISON):
                assert question.answer in question.evidence[-1]
    assert {kind for kind, _ in asked} == set(Kind)
    assert {"emblem", "garment", "weathervane", "pet"} <= {key for _, key in asked}


def test_a_later_passage_names_its_subject_in_no_sentence():
    later = 0
    for seed in range(60):
        for passage in _drawn(seed)[0].passages:
            if passage.anonymous:
                later += 1
                assert passage.subject.name not in passage.text
    assert later > 60


def test_no_name_of_the_demo_is_trained_on():
    town = draw_world(random.Random(SEED))
    people = [f.founder for f in (*town.firms, *town.veiled_firms)] + list(town.residents)
    names = {p.name for p in people} | {f.name for f in (*town.firms, *town.veiled_firms)}
    assert len(names) > 50
    for seed in range(60):
        text = _drawn(seed)[0].render()
        assert not any(name in text for name in names)


@pytest.mark.parametrize("kind", [Kind.COREFERENCE, Kind.TWO_HOP])
def test_questions_say_what_the_passage_without_the_name_calls_its_subject(kind):
    described = 0
    for seed in range(60):
        for question in _drawn(seed)[1]:
            if question.kind is kind and question.steps:
                called = question.steps[-1][0].called
                described += bool(called) and f"the {called}" in question.text
    assert described > 30


def test_where_the_name_comes_too_late_a_value_looks_at_what_its_subject_is_called():
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    named = called = 0
    for seed in range(40):
        notes, questions = _drawn(seed)
        if not questions:
            continue
        rest = [Turn(q.text, q.kind.value, q) for q in questions[1:]]
        row = encode(answer_sample(notes, questions[0], rest), tokenizer)
        for look in (k for k in row.looks if k.role is Role.OWNER):
            subject = notes.world[look.who]
            name = subject.name.removeprefix("the ")
            words = tokenizer.decode([row.ids[group[0]] for group in look.to]).strip()
            assert words in {name, subject.called, f"{name} {subject.called}"}
            assert all(place < look.at for group in look.to for place in group)
            named += name in words
            called += words == subject.called
    assert named > 200
    assert called > 50
