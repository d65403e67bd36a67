"""The demo shares no name with the reader's training data.

Otherwise a right answer in the demo could be remembered instead of read. The training generator
is taken as it is: all string literals of its source, and names drawn from it. Its notes in wordings
of their own share no sentence template either; the others have the demo's (ADR 15).
"""

import ast
import importlib
import re
import sys
from pathlib import Path
from random import Random

import pytest

from tools.demo_corpus import lexicon

READER = Path(__file__).parents[4] / "models" / "reader"
TRAINING = READER / "training"
NAMES_DRAWN = 3000

pytestmark = pytest.mark.skipif(
    not TRAINING.is_dir(), reason="models/reader/training is not in this checkout"
)

PERSONAL = {*lexicon.WOMEN, *lexicon.MEN, *lexicon.SURNAMES}
PLACES = {lexicon.TOWN, lexicon.RIVER, *lexicon.VILLAGES, *lexicon.STREETS}
THINGS = {
    *(trade.firm for trade in (*lexicon.TRADES, *lexicon.VEILED_TRADES)),
    *(building.name for building in lexicon.BUILDINGS),
    *(event.name for event in lexicon.EVENTS),
    *(club.name for club in lexicon.CLUBS),
}


def _training_lines() -> set[str]:
    """Every line of every string literal in the training generator's source."""
    lines: set[str] = set()
    for path in sorted(TRAINING.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                lines.update(line.strip() for line in node.value.splitlines())
    return lines - {""}


def _normalised(template: str) -> str:
    """Lower case, one mark for every field, no marks at either end."""
    text = re.sub(r"\{[^}]*\}", "_", template.lower())
    return re.sub(r"^[?#<]\s*|[\s.?!]+$", "", re.sub(r"\s+", " ", text))


def _own_templates() -> set[str]:
    groups = [*lexicon.TEMPLATES.values(), *lexicon.QUESTIONS.values()]
    events = [text for event in lexicon.EVENTS for text in (event.opening, event.deed)]
    return {_normalised(template) for group in (*groups, events) for template in group}


def test_no_person_or_place_name_stands_in_the_training_source() -> None:
    words = {word.lower() for line in _training_lines() for word in re.findall(r"[\w']+", line)}
    assert len(words) > 500, "the training lists were not found"
    assert not {name for name in PERSONAL if name.lower() in words}
    text = "\n".join(_training_lines()).lower()
    assert not {name for name in PLACES | THINGS if name.lower() in text}


def test_the_wordings_of_the_trainings_own_notes_are_not_the_demos() -> None:
    training = {_normalised(line) for line in _training_lines()}
    assert sum("_" in template for template in training) > 100, "no training templates found"
    assert not _own_templates() & training


def test_no_name_is_drawn_by_the_training_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(READER))
    try:
        fillings = importlib.import_module("training.fillings")
        drawn: set[str] = set()
        for split in fillings.Split:
            source = fillings.Fillings(Random(7), split)
            draws = (source.person, source.place, source.org, source.building, source.event)
            drawn.update(draw() for draw in draws for _ in range(NAMES_DRAWN))
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "training"]:
            del sys.modules[name]
    words = {word.lower() for name in drawn for word in name.split()}
    bare = {name.removeprefix("the ").lower() for name in drawn}
    assert not {name for name in PERSONAL if name.lower() in words}
    assert not {name for name in PLACES | THINGS if name.lower() in bare}
