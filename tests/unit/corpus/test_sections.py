"""Headings in Markdown, and the titles they make."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.corpus.document import Document
from heddle.corpus.sections import TITLE_CHARS_MAX, headings, sections


def cut(text: str, title: str = "Doc") -> list[tuple[str, str]]:
    document = Document("id", title, text, "", has_headings=True)
    return [(found.title, text[found.start : found.end].strip()) for found in sections(document)]


def names(text: str) -> list[tuple[int, str]]:
    found = headings(Document("id", "Doc", text, "", has_headings=True))
    return [(heading.level, heading.text) for heading in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# One", [(1, "One")]),
        ("### Three ###  ", [(3, "Three")]),
        ("   # Indented", [(1, "Indented")]),
        ("    # Code", []),
        ("#Tag", []),
        ("####### Seven", []),
        ("# C#", [(1, "C#")]),
        ("Above\n=====\n", [(1, "Above")]),
        ("Above\n---\n", [(2, "Above")]),
        ("text\ntext\n---\n", []),
        ("\n---\n\ntext", []),
        ("```\n# comment\n```\n# Real", [(1, "Real")]),
        ("~~~\n```\n# comment\n~~~\n# Real", [(1, "Real")]),
        ("```\n# never closed", []),
        ("````\n```py\n# comment\n```\n# comment\n````\n# Real", [(1, "Real")]),
        ("```\n# comment\n```py\n# comment\n```\n# Real", [(1, "Real")]),
        ("```pip install x``` does it\n# Real", [(1, "Real")]),
        ("~~~a`b\n# comment\n~~~~\n# Real", [(1, "Real")]),
        ("# " + "x" * 300, []),
        ("# One\nUnder\n===\n", [(1, "One"), (1, "Under")]),
    ],
)
def test_what_is_a_heading(text, expected):
    assert names(text) == expected


def test_a_heading_that_repeats_the_title_is_not_said_twice():
    assert cut("# Doc\nbody\n## Part\nmore") == [("Doc", "body"), ("Doc > Part", "more")]


def test_a_list_of_contents_stands_above_nothing():
    text = "# Page\n## Table of contents\n### Use\nbody\n## Contents\n- Use\n### End\nlast"
    assert cut(text) == [
        ("Doc > Page > Use", "body"),
        ("Doc > Page > Contents", "- Use"),
        ("Doc > Page > End", "last"),
    ]


def test_a_heading_without_text_is_kept_as_text():
    assert cut("# One\n# Two\nbody\n## Three") == [
        ("Doc > One", "# One"),
        ("Doc > Two", "body"),
        ("Doc > Two > Three", "## Three"),
    ]


def test_levels_may_jump_back():
    assert cut("### Deep\na\n# Top\nb\n## Mid\nc") == [
        ("Doc > Deep", "a"),
        ("Doc > Top", "b"),
        ("Doc > Top > Mid", "c"),
    ]


def test_titles_are_bounded_and_keep_the_nearest_heading():
    text = "".join(f"{'#' * level} {level}{'h' * 150}\n" for level in range(1, 7)) + "body"
    ((title, body),) = cut(text, title="T" * 1000)
    assert body == "body"
    assert len(title) <= TITLE_CHARS_MAX
    assert title.startswith("TTT")
    assert title.endswith("6" + "h" * 150)
    assert all(len(title) <= TITLE_CHARS_MAX for title, _ in cut("body", title="T" * 1000))


LINES = st.lists(
    st.sampled_from(["# One", "## Two", "text a", "text b", "", "===", "---", "```", "# x #"]),
    max_size=25,
)


@settings(max_examples=200)
@given(lines=LINES)
def test_every_line_is_in_a_text_or_in_a_title(lines):
    text = "\n".join(lines)
    found = cut(text)
    bodies = "\n".join(body for _, body in found)
    titles = {part for title, _ in found for part in title.split(" > ")}
    heading_texts = [name for _, name in names(text)]
    for line in lines:
        stripped = line.strip("# ").strip()
        is_underline = bool(line) and set(line) <= set("=-")
        assert is_underline or line in bodies or stripped in titles
    for name in heading_texts:
        assert name in titles or name in bodies
