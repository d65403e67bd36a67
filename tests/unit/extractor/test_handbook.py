"""Questions about documentation, and what of its pages is indexed for them."""

import json

import pytest
from extractor_training import handbook
from extractor_training.handbook import excerpt, kept_handbook_rows
from extractor_training.rows import Passage, Row

from heddle.evals.manuals.library import COMMANDS, MODULES, PACKAGE_MODULES, READMES

PAGE = "# tool\n\nAbout.\n\n" + "".join(
    f"## tool.Part{n}\n\nPart {n}.\n\n### tool.Part{n}.call\n\nCall {n}.\n\n" for n in range(6)
)


def _place(words):
    start = PAGE.index(words)
    return start, start + len(words)


def test_no_question_is_about_a_page_that_measures():
    measured = {*MODULES, *PACKAGE_MODULES, *(f"readme-{name}" for name in READMES)}
    questions = [json.loads(line) for line in handbook.QUESTIONS.read_text().splitlines()]
    assert not {one["page"] for one in questions} & {f"{name}.md" for name in measured}
    assert not {tuple(one["command"][1:]) for one in questions if one["command"]} & {
        words for words in COMMANDS if words != ("--help",)
    }


def test_an_excerpt_has_the_sections_near_a_question_and_the_page_s_own():
    kept = excerpt(PAGE, [_place("Part 3.")])
    assert "About." in kept
    assert "Call 2." in kept
    assert "Part 3." in kept
    assert "Call 3." in kept
    assert "Part 2." not in kept
    assert "Part 4." not in kept


def test_an_excerpt_keeps_the_heading_above_a_part():
    kept = excerpt(PAGE, [_place("Part 3.")])
    assert kept.index("## tool.Part2\n") < kept.index("### tool.Part2.call")
    assert kept.count("## tool.Part3\n") == 1


def test_an_excerpt_of_everything_is_the_page():
    assert excerpt(PAGE, [(0, len(PAGE))]) == PAGE


def test_rows_are_made_once_and_read_as_they_were(tmp_path, monkeypatch):
    passage = Passage("handbook/1", "tool > tool.Part1", "Call 1.")
    row = Row("handbook/a/0", "handbook", "What?", ("Call",), passage, ((0, 4),))
    none = Row("handbook/a/1", "handbook", "Why?", (), passage, ())
    made = [(row, (passage,)), (none, ())]
    monkeypatch.setattr(handbook, "handbook_rows", lambda: made)
    assert kept_handbook_rows(tmp_path) == made
    monkeypatch.setattr(handbook, "handbook_rows", lambda: pytest.fail("made again"))
    assert kept_handbook_rows(tmp_path) == made
