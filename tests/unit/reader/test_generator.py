import random
from dataclasses import replace

import pytest
from training import prompts
from training.fillings import Fillings, Split, split_of
from training.notes import NotesStyle, write_notes
from training.phases import PHASES
from training.questions import Kind, ask
from training.relations import COMPARISONS, RELATIONS
from training.samples import draw_notes, draw_sample
from training.world import draw_world

ALL_KINDS = dict.fromkeys(Kind, 1.0)


def _notes_and_questions(seed: int, recipe=PHASES[-1].recipe, split=Split.TRAIN):
    rng = random.Random(seed)
    fillings = Fillings(rng, split)
    notes = draw_notes(recipe, fillings, rng)
    return notes, ask(notes, ALL_KINDS, 40, fillings, rng)


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.name)
def test_same_seed_same_samples(phase):
    def drawn(seed):
        rng = random.Random(seed)
        samples = [draw_sample(phase.recipe, rng) for _ in range(10)]
        return [[(p.text, p.is_reply, p.kind) for p in sample.pieces] for sample in samples]

    assert drawn(3) == drawn(3)
    assert drawn(3) != drawn(4)


def test_a_gold_answer_stands_in_the_notes_unless_it_says_otherwise():
    kinds = set()
    for seed in range(60):
        notes, questions = _notes_and_questions(seed)
        text = notes.render().lower()
        for question in questions:
            kinds.add(question.kind)
            if question.kind is Kind.NOT_IN_NOTES:
                assert question.answer == prompts.NOT_IN_NOTES
                assert question.evidence == ()
            else:
                assert question.answer.lower() in text
                assert all(sentence in notes.render() for sentence in question.evidence)
    assert kinds == set(Kind)


def test_coreference_questions_rest_on_a_passage_that_does_not_name_the_subject():
    recipe = replace(PHASES[-1].recipe, town_share=0.0)
    seen = 0
    for seed in range(80):
        notes, questions = _notes_and_questions(seed, recipe)
        names = {s.name for s in notes.world}
        for question in questions:
            if question.kind is not Kind.COREFERENCE or not question.steps:
                continue
            passage = notes.passage_of(*question.steps[0])
            others = names - {f.value for f in passage.facts}
            assert not any(name in passage.text for name in others)
            seen += 1
    assert seen > 50


def test_a_two_hop_answer_is_not_in_the_first_passage_alone():
    for seed in range(60):
        _, questions = _notes_and_questions(seed)
        for question in questions:
            if question.kind is Kind.TWO_HOP:
                first, second = question.evidence
                assert first != second
                assert question.answer.lower() in second.lower()


def _keys_compared(text, world):
    """Keys of the comparisons that ask this question of two subjects that have the key."""
    return {
        key
        for key, *wordings in COMPARISONS
        for a in world
        for b in world
        if a.fact(key) and b.fact(key)
        for wording in wordings[0] + wordings[1]
        if wording.format(a=a.name, b=b.name) == text
    }


def test_comparisons_agree_with_the_numbers():
    seen = 0
    for seed in range(120):
        notes, questions = _notes_and_questions(seed)
        for question in questions:
            if question.kind is not Kind.COMPARISON:
                continue
            pairs = [
                (s.name, int(f.value.replace(",", "")))
                for s in notes.world
                for f in s.facts
                if s.name in question.text and f.key in _keys_compared(question.text, notes.world)
            ]
            small = {"older", "earlier", "first", "shorter", "lower", "smaller", "fewer"}
            wanted = min if small & set(question.text.replace(",", "").split()) else max
            assert question.answer == wanted(pairs, key=lambda pair: pair[1])[0]
            seen += 1
    assert seen > 20


@pytest.mark.parametrize("split", list(Split))
def test_names_and_fillings_keep_to_their_split(split):
    rng = random.Random(1)
    fillings = Fillings(rng, split)
    for _ in range(300):
        for name_part in (fillings.first_name(), fillings.last_name(), fillings.word()):
            assert split_of(name_part) is split
        for kind in ("occupation", "instrument", "hobby", "product", "year", "number", "date"):
            assert split_of(fillings.value(kind)) is split


def test_every_filling_kind_of_a_relation_can_be_drawn_from_both_splits():
    for split in Split:
        fillings = Fillings(random.Random(0), split)
        for relation in RELATIONS:
            assert fillings.value(relation.value)


def test_every_relation_has_many_wordings():
    for relation in RELATIONS:
        assert len(relation.statements) >= 7, relation.key
        assert len(relation.questions) >= 3, relation.key
        assert all("{v}" in s or "{av}" in s for s in relation.statements)
        assert all("{n}" in q for q in relation.questions)


def test_every_fact_is_written_once():
    rng = random.Random(5)
    for _ in range(30):
        world = draw_world(rng, Fillings(rng, Split.TRAIN), 6, 2, 5)
        notes = write_notes(world, PHASES[-1].recipe.style, rng)
        written = [(p.subject.name, f.key) for p in notes.passages for f in p.facts]
        assert sorted(written) == sorted((s.name, f.key) for s in world for f in s.facts)


def test_a_sentence_for_two_facts_holds_both_values_after_the_subject():
    style = NotesStyle(pair_rate=1.0)
    pairs = 0
    for seed in range(40):
        rng = random.Random(seed)
        world = draw_world(rng, Fillings(rng, Split.TRAIN), 4, 4, 7)
        for passage in write_notes(world, style, rng).passages:
            name = passage.subject.name.lower()
            for sentence in set(passage.facts.values()):
                stated = [f.value.lower() for f, s in passage.facts.items() if s == sentence]
                assert all(value in sentence.lower() for value in stated)
                if len(stated) == 2:
                    pairs += 1
                    assert sentence.lower().startswith(name)
    assert pairs > 10


def test_a_described_person_is_named_and_described():
    recipe = replace(PHASES[-1].recipe, described_rate=1.0)
    described = 0
    for seed in range(20):
        rng = random.Random(seed)
        fillings = Fillings(rng, Split.TRAIN)
        notes = draw_notes(recipe, fillings, rng)
        for question in ask(notes, {Kind.SINGLE_HOP: 1.0}, 12, fillings, rng, 1.0):
            (subject, _), *_ = question.steps
            if f"{subject.name}, the " in question.text:
                described += 1
                occupation = subject.fact("occupation")
                assert occupation is None or occupation.value in question.text
                assert ",?" not in question.text
    assert described > 20


def test_made_up_titles_name_nobody_and_tell_documents_apart():
    style = NotesStyle(blank_title_rate=1.0, split_rate=1.0, free_title_rate=1.0)
    for seed in range(20):
        rng = random.Random(seed)
        fillings = Fillings(rng, Split.TRAIN)
        notes = write_notes(draw_world(rng, fillings, 6, 3, 5, 2), style, rng)
        assert not any(passage.titled for passage in notes.passages)
        titles = {passage.subject: passage.title for passage in notes.passages}
        assert len(set(titles.values())) == len(notes.world)
        assert all(passage.title == titles[passage.subject] for passage in notes.passages)
