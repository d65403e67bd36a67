"""Folders and classes are counted as the bars mean it, today's tree and an older one."""

import json
import subprocess
import sys

import pytest

from tools import house
from tools.house import ClassSize, Folder, House, HouseError, class_sizes

BASE = '''class Base:
    """A base."""

    def step(self): ...

    def close(self): ...
'''
ENGINE = """from heddle.core.base import Base


class Engine(Base):
    def step(self): ...

    async def run(self): ...
"""
TREE = {
    "heddle/__init__.py": "",
    "heddle/core/base.py": BASE,
    "heddle/engines/engine.py": ENGINE,
}


def size_of(tree, name):
    return next(size for size in class_sizes(tree) if size.name == name)


def test_a_class_counts_with_its_bases_and_an_override_once():
    assert size_of(TREE, "Base") == ClassSize("Base", "heddle/core/base.py", 6, 2)
    assert size_of(TREE, "Engine") == ClassSize("Engine", "heddle/engines/engine.py", 4 + 6, 3)


@pytest.mark.parametrize(
    ("heading", "base"),
    [
        ("from heddle.core.base import Base as Below", "Below"),
        ("from heddle.core import base", "base.Base"),
        ("from heddle.core import base as below", "below.Base"),
        ("import heddle.core.base as below", "below.Base"),
        ("from heddle.core.base import Base", "Base[int]"),
        ("from heddle.core import Base", "Base"),
    ],
)
def test_a_base_is_found_however_it_is_imported(heading, base):
    tree = {
        **TREE,
        "heddle/core/__init__.py": "from heddle.core.base import Base\n",
        "heddle/a.py": f"{heading}\nclass A({base}): ...\n",
    }
    assert size_of(tree, "A").lines == 1 + 6


@pytest.mark.parametrize("base", ["Protocol", "abc.ABC", "Missing", "make()", "A"])
def test_a_base_from_elsewhere_adds_nothing(base):
    tree = {"heddle/a.py": f"import abc\nfrom typing import Protocol\nclass A({base}): ...\n"}
    assert size_of(tree, "A").lines == 1


def test_a_base_reached_on_two_ways_counts_once():
    text = "class A:\n    x = 1\nclass B(A): ...\nclass C(A): ...\nclass D(B, C): ...\n"
    assert size_of({"heddle/a.py": text}, "D").lines == 5


def test_a_property_and_its_setter_are_one_method():
    text = "class A:\n @property\n def x(self): ...\n @x.setter\n def x(self, value): ...\n"
    assert size_of({"heddle/a.py": text}, "A").methods == 1


def test_a_folder_counts_the_files_beside_each_other():
    folders = House.of({**TREE, "heddle/core/kv/row.py": "x = 1\n"}).folders
    assert [folder.path for folder in folders] == [
        "heddle",
        "heddle/core",
        "heddle/core/kv",
        "heddle/engines",
    ]
    assert folders[1] == Folder("heddle/core", 1, 6, size_of(TREE, "Base"))
    assert folders[2] == Folder("heddle/core/kv", 1, 1, None)


@pytest.mark.parametrize(
    ("lines", "methods", "is_too_large"),
    [(400, 30, False), (401, 1, True), (1, 31, True)],
)
def test_a_class_may_reach_the_bars_and_not_pass_them(lines, methods, is_too_large):
    assert ClassSize("A", "heddle/a.py", lines, methods).is_too_large is is_too_large


def test_the_table_names_the_classes_over_the_bars():
    methods = "".join(f"    def m{number}(self): ...\n" for number in range(31))
    lines = house.table(House.of({"heddle/a.py": f"class A:\n{methods}", "heddle/b/c.py": ""}))
    assert lines[0] == "folder    files  lines  largest class (lines/methods)"
    assert lines[1] == "heddle        1     32  A 32/31"
    assert lines[2] == "heddle/b      1      0  -"
    assert lines[-1] == "classes over 400 lines or 30 methods: A 32/31"


def test_two_trees_stand_side_by_side():
    moved = {"heddle/core/base.py": BASE, "heddle/rooms/engine.py": ENGINE}
    lines = house.comparison(House.of(TREE), House.of(moved))
    assert [line.split() for line in lines[1:5]] == [
        ["heddle", "1", "-", "0", "-", "-", "-"],
        ["heddle/core", "1", "1", "6", "6", "Base", "6/2", "Base", "6/2"],
        ["heddle/engines", "1", "-", "7", "-", "Engine", "10/3", "-"],
        ["heddle/rooms", "-", "1", "-", "7", "-", "Engine", "10/3"],
    ]
    assert lines[-1] == "now: classes over 400 lines or 30 methods: none"


def test_a_file_that_is_not_python_is_named():
    with pytest.raises(HouseError, match=r"heddle/a\.py is not Python"):
        House.of({"heddle/a.py": "def"})


@pytest.fixture
def repository(tmp_path):
    """A repository whose only commit holds TREE, with one file more on disk."""

    def git(*arguments):
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    for file, text in {**TREE, "heddle/notes.txt": "no Python"}.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    (tmp_path / "heddle/new.py").write_text("x = 1\n")
    return tmp_path


def test_an_older_tree_is_read_from_git(repository):
    assert house.committed_tree("HEAD", repository) == TREE
    assert house.working_tree(repository) == {**TREE, "heddle/new.py": "x = 1\n"}


@pytest.mark.parametrize("commit", ["nothing", "--output=stolen.tar", ""])
def test_a_commit_that_is_none_is_refused(repository, commit):
    with pytest.raises(HouseError):
        house.committed_tree(commit, repository)
    assert not (repository / "stolen.tar").exists()


def test_a_wrong_commit_ends_the_command(capsys):
    assert house.main(["--against", "no-such-commit"]) == 2
    assert "no-such-commit" in capsys.readouterr().err


def test_the_figures_are_written_with_those_before(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(house, "working_tree", lambda: TREE)
    monkeypatch.setattr(house, "committed_tree", lambda commit: {"heddle/a.py": ""})
    assert house.main(["--against", "a1b2", "--json", str(tmp_path / "house.json")]) == 0
    written = json.loads((tmp_path / "house.json").read_text())
    assert written["headline"] == {
        "folders": 3,
        "files": 3,
        "files_side_by_side_max": 1,
        "lines": 13,
        "classes_too_large": 0,
    }
    assert written["before"]["headline"]["files"] == 1
    assert written["rows"][1]["largest"]["name"] == "Base"
    assert "heddle/engines" in capsys.readouterr().out


@pytest.mark.slow
def test_it_runs_as_a_script():
    done = subprocess.run([sys.executable, str(house.ROOT / "tools/house.py")], capture_output=True)
    assert done.returncode == 0
    assert b"heddle/engines/llm/attention" in done.stdout
