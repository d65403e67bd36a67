"""Prompt and query templates: literal text and `{slot}` placeholders."""

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from heddle.core.errors import WorkflowError
from heddle.graph.primitive import Span

QUESTION = "query"
QUESTION_ALIASES = frozenset({"query", "input"})
DOCUMENTS = "documents"  # the input with what came with the request
TURN = "turn"  # in the state of a callable edge: how often its node has run, from 1


_SPAN: Final = re.compile(r"(\w+)\[(\d*):(\d*)\]")


@dataclass(frozen=True, slots=True)
class Slot:
    """A placeholder: the value of a slot goes here, or a span of its passages or items."""

    name: str
    span: Span | None = None

    @property
    def text(self) -> str:
        """The placeholder as it is written."""
        if self.span is None:
            return f"{{{self.name}}}"
        start, stop = ("" if at is None else at for at in self.span)
        return f"{{{self.name}[{start}:{stop}]}}"


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template; `{{` and `}}` stand for braces, `{docs[0:2]}` for two passages."""

    parts: tuple[str | Slot, ...]

    @property
    def slots(self) -> tuple[str, ...]:
        """The slots read, in order, each once."""
        return tuple(dict.fromkeys(p.name for p in self.parts if isinstance(p, Slot)))

    @property
    def text(self) -> str:
        """The text that it was parsed from, or one that means the same."""
        return "".join(
            part.text if isinstance(part, Slot) else part.replace("{", "{{").replace("}", "}}")
            for part in self.parts
        )

    @property
    def numbered(self) -> dict[str, Slot]:
        """The slots by name, without the number of a function's later call: docs -> docs_2."""
        slots = [part for part in self.parts if isinstance(part, Slot)]
        return {re.sub(r"_\d+$", "", slot.name): slot for slot in slots}

    def renamed(self, names: Mapping[str, Slot]) -> "Template":
        """Return the template with others for some of its slots; those that aren't named stay.

        A span stays one, of the other slot.
        """
        parts = (_renamed(p, names) if isinstance(p, Slot) else p for p in self.parts)
        return Template(tuple(parts))


EMPTY: Final = Template(())


def parse_slot(text: str, *, where: str) -> Slot:
    """Parse the name of a slot, or a span of one such as `docs[0:2]`.

    Raises:
        WorkflowError: it is neither.
    """
    return _slot(text, None, None, where)


def parse_template(text: str, *, where: str) -> Template:
    """Parse a template.

    Args:
        text: the template; `{input}` and `{query}` both mean the user's question.
        where: the node and argument, for the error message.

    Raises:
        WorkflowError: an unbalanced brace, or a placeholder that is no plain name and no span.
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


def _renamed(slot: Slot, names: Mapping[str, Slot]) -> Slot:
    other = names.get(slot.name, slot)
    return other if slot.span is None else replace(other, span=slot.span)


def _slot(name: str, spec: str | None, conversion: str | None, where: str) -> Slot:
    span = None
    if spanned := _SPAN.fullmatch(name):
        name, first, stop = spanned.groups()
        span = int(first or 0), int(stop) if stop else None
    if not name.isidentifier() or spec or conversion:
        raise WorkflowError(
            f"{where}: placeholder {{{name}}} is not a plain name such as {{docs}}, nor a span "
            "such as {docs[0:2]}; write '{{' and '}}' for literal braces"
        )
    return Slot(QUESTION if name in QUESTION_ALIASES else name, span)
