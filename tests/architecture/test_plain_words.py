"""Help texts hold none of the phrases that are hard to read; prose holds fewer with each change."""

import pytest

from heddle.cli.main import COMMANDS, command_parser
from tools.plain_words import allowed_counts, found_below, grown, phrases_in


@pytest.fixture(scope="module")
def counts() -> dict[str, int]:
    """Return how many phrases each file of the tree holds: reading them all takes seconds."""
    return {file: len(places) for file, places in found_below().items()}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_texts_are_in_plain_words(command: str) -> None:
    parser = command_parser(command)
    for text in (parser.format_common_help(), parser.format_help()):
        assert phrases_in(" ".join(text.split())) == []


def test_prose_is_in_plain_words(counts: dict[str, int]) -> None:
    assert grown(counts, allowed_counts()) == [], "see `python -m tools.plain_words --list`"


def test_the_list_allows_no_more_than_there_is(counts: dict[str, int]) -> None:
    stale = {file: n for file, n in allowed_counts().items() if counts.get(file, 0) < n}
    assert stale == {}, "run `python -m tools.plain_words`: the list can shrink"
