"""Help texts, docstrings, comments and documentation hold none of the phrases hard to read."""

import pytest

from heddle.cli.main import COMMANDS, command_parser
from tools.plain_words import found_below, phrases_in


@pytest.mark.parametrize("command", COMMANDS)
def test_help_texts_are_in_plain_words(command: str) -> None:
    parser = command_parser(command)
    for text in (parser.format_common_help(), parser.format_help()):
        assert phrases_in(" ".join(text.split())) == []


def test_prose_is_in_plain_words() -> None:
    assert found_below() == {}, "see `python -m tools.plain_words`"
