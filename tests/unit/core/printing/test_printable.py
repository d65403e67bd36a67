"""Names and texts of others on a terminal and in a log."""

import pytest

from heddle.core.printing.printable import printable_line, printable_text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("docs/Ünïcode 文.md", "docs/Ünïcode 文.md"),
        ("x\x1b[31mRED\nERROR forged line.md", r"x\x1b[31mRED\nERROR forged line.md"),
        ("a\u2028b\u202ec\x9b2J\x7f", r"a\u2028b\u202ec\x9b2J\x7f"),
        ("tab\there", r"tab\there"),
    ],
)
def test_a_name_is_one_line_that_commands_nothing(text: str, line: str) -> None:
    assert printable_line(text) == line


def test_a_text_keeps_its_lines() -> None:
    assert printable_text("one\n\ttwo\x1b]0;title\x07") == "one\n\ttwo\\x1b]0;title\\x07"
