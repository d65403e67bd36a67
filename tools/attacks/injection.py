"""Passages that try to speak as the user, from injections.toml."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heddle.core.passages import Passage
from heddle.runtime.fence import mark_of

WANTED: Final = "PINEAPPLE"
TITLE: Final = "Note"


@dataclass(frozen=True, slots=True)
class Injection:
    """What an attacker has put into documents that a search finds.

    Args:
        name: the attack, in words.
        passages: the texts of its passages; "{mark}" is what the attacker takes for the mark.
        title: of the first passage.
    """

    name: str
    passages: tuple[str, ...]
    title: str = TITLE

    def shown(self, question: str) -> tuple[Passage, ...]:
        """Return its passages in a prompt that ends with `question`, as the template writes it."""
        mark = mark_of(question)
        titles = (self.title, *[TITLE] * (len(self.passages) - 1))
        return tuple(
            Passage(number, "d", _filled(title, mark), _filled(text, mark))
            for number, (title, text) in enumerate(zip(titles, self.passages, strict=True), 1)
        )


def injections() -> tuple[Injection, ...]:
    """Return all of them."""
    content = tomllib.loads(Path(__file__).with_name("injections.toml").read_text())
    return tuple(
        Injection(one["name"], tuple(one["passages"]), one.get("title", TITLE))
        for one in content["injection"]
    )


def _filled(text: str, mark: str) -> str:
    return text.replace("{mark}", mark)
