"""Prompt and query templates: literal text and `{slot}` placeholders."""

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass

from heddle.core.errors import WorkflowError

QUESTION = "query"
QUESTION_ALIASES = frozenset({"query", "input"})
TURN = "turn"  # in the state of a callable edge: how often its node has run, from 1


@dataclass(frozen=True, slots=True)
class Slot:
    """A placeholder: the value of a slot goes here."""

    name: str


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template; `{{` and `}}` stand for braces."""

    parts: tuple[str | Slot, ...]

    @property
    def slots(self) -> tuple[str, ...]:
        """The slots read, in order, each once."""
        return tuple(dict.fromkeys(p.name for p in self.parts if isinstance(p, Slot)))

    @property
    def text(self) -> str:
        """The text that it was parsed from, or one that means the same."""
        return "".join(
            f"{{{part.name}}}"
            if isinstance(part, Slot)
            else part.replace("{", "{{").replace("}", "}}")
            for part in self.parts
        )

    @property
    def numbered(self) -> dict[str, str]:
        """The slots by name, without the number of a function's later call: docs -> docs_2."""
        return {re.sub(r"_\d+$", "", slot): slot for slot in self.slots}

    def renamed(self, names: Mapping[str, str]) -> "Template":
        """Return the template with slots of other names; those that aren't named stay."""
        return Template(
            tuple(Slot(names.get(p.name, p.name)) if isinstance(p, Slot) else p for p in self.parts)
        )


def parse_template(text: str, *, where: str) -> Template:
    """Parse a template.

    Args:
        text: the template; `{input}` and `{query}` both mean the user's question.
        where: the node and argument, for the error message.

    Raises:
        WorkflowError: an unbalanced brace, or a placeholder that is no plain name.
    """
    if not isinstance(text, str) or not text:
        raise WorkflowError(f"{where}: needs a non-empty text, got {text!r}")
    parts: list[str | Slot] = []
    try:
        pieces = list(string.Formatter().parse(text))
    except ValueError as error:
        raise WorkflowError(f"{where}: {error}; write '{{{{' for a literal brace") from error
    for literal, name, spec, conversion in pieces:
        if literal:
            parts.append(literal)
        if name is not None:
            parts.append(_slot(name, spec, conversion, where))
    return Template(tuple(parts))


def _slot(name: str, spec: str | None, conversion: str | None, where: str) -> Slot:
    if not name.isidentifier() or spec or conversion:
        raise WorkflowError(
            f"{where}: placeholder {{{name}}} is not a plain name such as {{docs}}; "
            "write '{{' and '}}' for literal braces"
        )
    return Slot(QUESTION if name in QUESTION_ALIASES else name)
