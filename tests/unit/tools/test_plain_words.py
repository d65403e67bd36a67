"""The phrases are found in prose and nowhere else, and the list of counts can only shrink."""

import json
import subprocess

import pytest

from tools import plain_words
from tools.plain_words import PHRASES, Found, found_below, found_in, grown, phrases_in


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


def test_a_count_may_shrink_and_not_grow():
    allowed = {"a.py": 2, "b.py": 1}
    assert grown({"a.py": 1}, allowed) == []
    assert grown({"a.py": 3, "c.py": 1}, allowed) == ["a.py: 3, at most 2", "c.py: 1, at most 0"]


def test_a_renamed_file_takes_its_count_along():
    assert grown({"new.py": 2}, {"old.py": 2}, {"new.py": "old.py"}) == []
    assert grown({"new.py": 3}, {"old.py": 2}, {"new.py": "old.py"}) == ["new.py: 3, at most 2"]


def test_a_count_that_was_carried_already_stays():
    assert grown({"new.py": 2}, {"new.py": 2}, {"new.py": "old.py"}) == []


def test_git_says_what_was_renamed(tmp_path):
    def git(*arguments):
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / "old.py").write_text("one = 1\ntwo = 2\n")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    git("mv", "old.py", "new.py")
    assert plain_words.renamed_since("HEAD", tmp_path) == {"new.py": "old.py"}


@pytest.fixture
def listed(tmp_path, monkeypatch):
    """A list that allows two phrases in one file, and a setter for what is found."""
    path = tmp_path / "plain_words.json"
    path.write_text('{"a.py": 2}')
    monkeypatch.setattr(plain_words, "ALLOWED", path)
    monkeypatch.setattr(plain_words, "allowed_counts", lambda: json.loads(path.read_text()))

    def finds(count):
        found = {"a.py": [Found(1, "nobody")] * count}
        monkeypatch.setattr(plain_words, "found_below", lambda: found)
        return path

    return finds


def test_the_list_is_written_anew_when_it_shrinks(listed, capsys):
    path = listed(1)
    assert plain_words.main([]) == 0
    assert json.loads(path.read_text()) == {"a.py": 1}
    assert "1 phrases are left, in 1 files" in capsys.readouterr().out


def test_a_list_that_has_grown_is_not_written(listed, capsys):
    path = listed(3)
    assert plain_words.main([]) == 1
    assert json.loads(path.read_text()) == {"a.py": 2}
    assert "a.py: 3, at most 2" in capsys.readouterr().err


def test_phrases_are_shown_with_their_places(listed, capsys):
    listed(1)
    assert plain_words.main(["--list"]) == 0
    assert capsys.readouterr().out == "a.py:1: nobody\n"
