"""The generator: committed data equal its output, and its checks refuse unsound questions."""

from importlib import resources
from random import Random

import pytest

from heddle.demo.corpus import QuestionKind
from tools.demo_corpus import lexicon, world
from tools.demo_corpus.generate import generated_files
from tools.demo_corpus.questions import Candidate, Passage, gold_passages

BYTES_MAX = 1_000_000
FOUNDING = Passage("d1", 0, "Oak Mill", "Oak Mill was founded by Ann Reed.")
MOVING = Passage("d1", 1, "Oak Mill", "The company moved to Hill Street.")
LIFE = Passage("d2", 0, "Ann Reed, miller", "She was born in Fenby.")


def _two_hop(**changes: object) -> Candidate:
    fields: dict[str, object] = {
        "question": "In which village was the founder of Oak Mill born?",
        "answer": "Fenby",
        "kind": QuestionKind.TWO_HOP,
        "relation": "born_village",
        "subject": "Oak Mill",
        "bridge": "Ann Reed",
        "titles": ("Oak Mill", "Ann Reed, miller"),
    }
    return Candidate(**(fields | changes))  # type: ignore[arg-type]


def test_the_committed_files_are_what_the_script_writes() -> None:
    for file_name, text in generated_files().items():
        committed = resources.files("heddle.demo").joinpath("data", file_name)
        assert committed.read_text(encoding="utf-8") == text, (
            "run: python -m tools.demo_corpus.generate"
        )


def test_the_data_stay_small() -> None:
    assert sum(len(text.encode()) for text in generated_files().values()) < BYTES_MAX


def test_another_seed_gives_another_town() -> None:
    assert generated_files(seed=1) != generated_files(seed=2)


def test_clashing_names_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert world.clashing_names() == []
    monkeypatch.setattr(lexicon, "VILLAGES", (*lexicon.VILLAGES, "Alder", lexicon.VILLAGES[0]))
    assert world.clashing_names() == ["Alder", lexicon.VILLAGES[0]]
    with pytest.raises(ValueError, match="rename"):
        world.draw_world(Random(0))


def test_a_sound_two_hop_question_keeps_both_passages() -> None:
    assert gold_passages(_two_hop(), (FOUNDING, MOVING, LIFE)) == (FOUNDING, LIFE)


@pytest.mark.parametrize(
    ("changes", "extra"),
    [
        pytest.param({"question": "Where was Ann Reed born?"}, (), id="names-the-bridge"),
        pytest.param(
            {},
            (Passage("d3", 0, "Fenby", "Oak Mill has a branch in Fenby."),),
            id="one-passage-holds-subject-and-answer",
        ),
        pytest.param(
            {},
            (Passage("d2", 1, "Ann Reed, miller", "She went home to Fenby."),),
            id="answer-stands-in-two-passages",
        ),
        pytest.param({"bridge": "Bob Cole"}, (), id="nothing-links-subject-and-bridge"),
    ],
)
def test_an_unsound_two_hop_question_is_dropped(
    changes: dict[str, object], extra: tuple[Passage, ...]
) -> None:
    assert gold_passages(_two_hop(**changes), (FOUNDING, MOVING, LIFE, *extra)) is None


def test_a_single_hop_question_needs_exactly_one_passage() -> None:
    candidate = _two_hop(
        kind=QuestionKind.SINGLE_HOP, answer="Hill Street", bridge="Oak Mill", titles=("Oak Mill",)
    )
    assert gold_passages(candidate, (FOUNDING, MOVING, LIFE)) == (MOVING,)
    elsewhere = Passage("d4", 0, "Streets", "Hill Street is noisy since Oak Mill came.")
    assert gold_passages(candidate, (FOUNDING, MOVING, elsewhere)) is None


def test_an_across_question_needs_the_passage_that_names_the_subject() -> None:
    veiled = Passage("d5", 0, "A mill", "Oak Mill stands by the river.")
    pronoun = Passage("d5", 1, "A mill", "It moved to Hill Street.")
    candidate = _two_hop(
        kind=QuestionKind.ACROSS_PASSAGES,
        answer="Hill Street",
        bridge="Oak Mill",
        titles=("A mill",),
    )
    assert gold_passages(candidate, (veiled, pronoun)) == (veiled, pronoun)
    named = Passage("d5", 1, "A mill", "Oak Mill moved to Hill Street.")
    assert gold_passages(candidate, (veiled, named)) is None
