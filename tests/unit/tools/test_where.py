"""Words find the file, the definition and the line that they ask for."""

import pytest

from tools import where as command
from tools.where import Said, in_c, in_python, on_page, said_below, where

ADMISSION = '''"""Who may enter."""

from typing import Final

PATIENCE_S: Final = 2.0  # until a guest gives up
# Of all seats.
SHARE = 0.5


class Door:
    """A door with a limit."""

    async def enter(self):
        """Let a guest in.

        Raises: Full.
        """
        return self.open()  # the bouncer looks

    class Bell:
        """Rings."""
'''
KERNEL = """
/* Sums the rows
   of a tile. */
static inline float *sumRows(const float *rows,
                             int count)
{
    return fold(rows);
}

void other(void) {
}
struct Not { int a; };
"""


def test_a_python_file_is_read_in_classes_functions_and_constants():
    found = list(in_python("heddle/admission.py", ADMISSION))
    assert [(one.line, one.name, one.summary) for one in found] == [
        (1, "admission", "Who may enter."),
        (5, "PATIENCE_S", "until a guest gives up"),
        (7, "SHARE", "Of all seats."),
        (10, "Door", "A door with a limit."),
        (13, "Door.enter", "Let a guest in."),
        (20, "Door.Bell", "Rings."),
    ]
    assert "the bouncer looks" in found[4].code


def test_a_c_file_is_read_in_functions():
    found = list(in_c("heddle/kernel.h", KERNEL))
    assert [(one.line, one.name) for one in found] == [(4, "sumRows"), (10, "other")]
    assert (found[0].summary, found[0].code.strip()) == (
        "Sums the rows of a tile.",
        "return fold(rows);",
    )


def test_a_page_says_something_of_a_file_that_it_names_without_doubt():
    files = ["heddle/a/door.py", "heddle/b/door.py", "heddle/b/window.py"]
    page = (
        "Doors are in `door.py`.\n\n| glass | `b/window.py` |\n"
        "- one in `a/door.py`,\n  another gone: `old.py`\n"
    )
    found = list(on_page("docs/page.md", page, files))
    assert [(one.file, one.summary, one.place) for one in found] == [
        ("heddle/b/window.py", "glass | `b/window.py`", "docs/page.md"),
        ("heddle/a/door.py", "one in `a/door.py`, another gone: `old.py`", "docs/page.md"),
    ]


def test_a_word_is_found_in_its_other_forms_and_inside_names():
    other = Said("heddle/other.py", 1, "other", "Something else.")
    said = [*in_python("heddle/admission.py", ADMISSION), other]
    assert where("guests entering", said)[0][0].name == "Door.enter"
    assert where("patience", said)[0][0].place == "heddle/admission.py:5"
    assert where("nothing-like it!", said) == where("?", said) == []


def test_a_file_comes_first_for_all_that_is_said_of_it():
    said = [
        Said("heddle/one.py", 1, "one", "Keys."),
        Said("heddle/many.py", 1, "many", "Rows of keys."),
        Said("heddle/many.py", 4, "Many", "Keys, old and new."),
        Said("docs", 0, "docs/page.md", "Nothing of that."),
    ]
    assert [[one.file for one in file] for file in where("keys", said)] == [
        ["heddle/many.py"] * 2,
        ["heddle/one.py"],
    ]


@pytest.fixture(scope="module")
def said():
    return said_below()


@pytest.mark.parametrize(
    ("words", "file"),
    [
        ("evict a page of the KV cache", "heddle/kv/page_ledger.py"),
        ("let a request in or refuse it where the server is full", "heddle/runtime/admission.py"),
        ("attention in C: queries of a few columns", "heddle/kernels/few_columns.h"),
    ],
)
def test_the_package_is_found_by_what_it_says(said, words, file):
    assert file in [found[0].file for found in where(words, said)]


def test_the_command_prints_file_and_line_and_fails_without_a_word(monkeypatch, capsys):
    monkeypatch.setattr(command, "said_below", lambda: list(in_python("heddle/a.py", ADMISSION)))
    assert command.main(["enter", "the", "door"]) == 0
    assert "  heddle/a.py:13  Door.enter\n      Let a guest in.\n" in capsys.readouterr().out
    assert command.main(["zzyzx"]) == 1
