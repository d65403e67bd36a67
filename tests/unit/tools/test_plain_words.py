"""The phrases are found in prose and nowhere else, and the command fails where there are any."""

import pytest

from tools import plain_words
from tools.plain_words import PHRASES, Found, found_below, found_in, phrases_in


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("Nobody asks.", ["nobody"]),
        ("An engine goes another\n    way than meant.", ["another way than"]),
        ("It is told; they were told.", ["is told", "were told"]),
        ("so\nmany, by then", ["so many", "by then"]),
        ("what its name is, and whatsoever", []),
        ("`nobody` and ``whatever`` are words", []),
        ("```\nsu - nobody\n```\nwhoever", ["whoever"]),
    ],
)
def test_a_phrase_is_found_across_lines_and_cases(text, phrases):
    assert phrases_in(text) == phrases


def test_every_phrase_is_one_that_can_be_found():
    plain = [phrase.replace("(?:is|are|was|were|be|been)", "is") for phrase in PHRASES]
    assert [phrases_in(phrase) for phrase in plain] == [[phrase] for phrase in plain]


def test_python_is_looked_at_in_docstrings_and_comments_only(tmp_path):
    path = tmp_path / "a.py"
    path.write_text(
        '"""What it is."""\n'
        "nobody = 'whatever'  # by then\n"
        "# so\n"
        "# many\n"
        "\n"
        "def whoever():\n"
        "    '''Tells.'''\n"
    )
    assert found_in(path) == [
        Found(1, "what it"),
        Found(2, "by then"),
        Found(2, "so many"),
        Found(7, "tells"),
    ]


def test_a_document_is_looked_at_whole(tmp_path):
    path = tmp_path / "a.md"
    path.write_text("# Nobody\n\nOne.\nTwo: so long.\n")
    assert found_in(path) == [Found(1, "nobody"), Found(3, "so long")]


def test_files_of_the_named_folders_are_looked_at(tmp_path):
    for name in ("README.md", "docs/adr/1.md", "heddle/a.py", "models/a.py", "docs/a.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("# whatever\n")
    assert sorted(found_below(tmp_path)) == ["README.md", "docs/adr/1.md", "heddle/a.py"]


def test_phrases_are_shown_with_their_places(monkeypatch, capsys):
    monkeypatch.setattr(plain_words, "found_below", lambda: {"a.py": [Found(1, "nobody")]})
    assert plain_words.main([]) == 1
    assert capsys.readouterr().out == "a.py:1: nobody\n"


def test_a_tree_without_phrases_passes(monkeypatch, capsys):
    monkeypatch.setattr(plain_words, "found_below", dict)
    assert plain_words.main([]) == 0
    assert capsys.readouterr().out == ""
