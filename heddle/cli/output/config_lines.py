"""Every setting in the form of heddle.toml, with the source of its value."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final

from heddle.app.config_sources import Choice
from heddle.app.setting import value_text
from heddle.core.printing.printable import printable_line

SECRETS: Final = ("HEDDLE_API_KEY", "HEDDLE_REMOTE_KEY", "OPENAI_API_KEY")
MASK: Final = "********"


def config_lines(choices: Iterable[Choice], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines: a table of TOML that means the same settings.

    No setting holds a secret: keys stand in files or in variables, and addresses with a password
    are refused.

    Args:
        choices: every setting, by group.
        environment: all variables of the process; those of keys are named, not shown.
    """
    for group, members in groupby(sorted(choices, key=_group), _group):
        yield f"# {group}"
        for choice in members:
            source = printable_line(choice.source)
            yield f"{choice.field.key} = {_toml(choice)}  # {source}"
        yield ""
    for name in SECRETS:
        if name in environment:
            yield f"# {name} is set: {MASK}"


def _group(choice: Choice) -> str:
    return choice.field.setting.group


def _toml(choice: Choice) -> str:
    match choice.value:
        case None:
            return _quoted(choice.field.setting.none)
        case bool():
            return str(choice.value).lower()
        case int() | float():
            return str(choice.value)
        case frozenset():
            return f"[{', '.join(map(_quoted, sorted(choice.value)))}]"
        case _:
            return _quoted(value_text(choice.value))


def _quoted(text: str) -> str:
    """Return a text as TOML has it: JSON writes a sign such as an emoji as two halves."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
