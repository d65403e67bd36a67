"""Help texts hold none of the phrases that are hard to read; prose holds fewer with each change."""

import argparse
import importlib
from collections.abc import Iterator

import pytest

from heddle.cli.main import COMMANDS
from tools.plain_words import allowed_counts, found_below, grown, phrases_in


def helps(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Return every text that a parser and the parsers of its subcommands can show."""
    yield from (text for text in (parser.description, parser.epilog) if text)
    for group in parser._action_groups:
        yield from (text for text in (group.title, group.description) if text)
    for action in parser._actions:
        if action.help:
            yield action.help
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from helps(command)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_texts_are_in_plain_words(command: str) -> None:
    module, line = COMMANDS[command]
    parser = argparse.ArgumentParser(description=line)
    importlib.import_module(module).add_arguments(parser)
    texts = list(helps(parser))
    assert len(texts) > 3
    assert [text for text in texts if phrases_in(text)] == []


def test_prose_is_in_plain_words() -> None:
    found = found_below()
    too_many = grown({file: len(places) for file, places in found.items()}, allowed_counts())
    assert too_many == [], "see `python -m tools.plain_words --list`"


def test_the_list_allows_no_more_than_there_is() -> None:
    counts = {file: len(places) for file, places in found_below().items()}
    stale = {file: n for file, n in allowed_counts().items() if counts.get(file, 0) < n}
    assert stale == {}, "run `python -m tools.plain_words`: the list can shrink"
