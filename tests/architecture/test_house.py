"""The bars that keep the house readable: files in a folder, lines and methods of a class."""

import ast
from pathlib import Path
from typing import Final

import pytest

from tools.house import ROOT, House, working_tree

FILES_SIDE_BY_SIDE_MAX: Final = 24
MAY_STAY_FLAT: Final = {
    "heddle/runtime": "small files, which its __init__ lists in reading order",
}
MAY_BE_LARGE: Final = {
    "ServerConfig": "one field for each setting",
}


@pytest.fixture(scope="module")
def house() -> House:
    return House.of(working_tree())


def test_no_folder_has_too_many_files_side_by_side(house: House) -> None:
    flat = {f.path: f.files for f in house.folders if f.files > FILES_SIDE_BY_SIDE_MAX}
    assert flat.keys() - MAY_STAY_FLAT.keys() == set(), flat


def test_no_class_is_too_large(house: House) -> None:
    large = {size.name: str(size) for size in house.too_large}
    assert large.keys() - MAY_BE_LARGE.keys() == set(), large


def test_the_exceptions_are_needed(house: House) -> None:
    flat = {folder.path for folder in house.folders if folder.files > FILES_SIDE_BY_SIDE_MAX}
    assert MAY_STAY_FLAT.keys() - flat == set(), "these folders are small enough now"
    large = {size.name for size in house.too_large}
    assert MAY_BE_LARGE.keys() - large == set(), "these classes are small enough now"


def named_in_docstring(folder: Path) -> set[str]:
    """Return the words that a folder's docstring sets in backticks at the start of a line."""
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    lines = (line.strip() for line in (docstring or "").splitlines())
    return {line.split("`")[1] for line in lines if line.startswith("`")}


@pytest.mark.parametrize("name", ["heddle/runtime"])
def test_a_flat_folder_says_what_each_file_is_for(name: str) -> None:
    files = {path.stem for path in (ROOT / name).glob("*.py")} - {"__init__"}
    assert named_in_docstring(ROOT / name) == files
