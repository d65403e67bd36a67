"""The turns of a conversation, and a text without any."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

SYSTEM: Final = "system"
USER: Final = "user"


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """One message of a conversation.

    Args:
        role: as the model's chat template knows it: system, user, assistant or tool.
        content: what was said; it can hold any text, and no part of it becomes a control token.
        fields: what else the template may read of a message, such as `tool_calls`, `tool_call_id`
            and `name`: JSON values.
    """

    role: str
    content: str
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChatTurns:
    """A conversation that the model is to go on with, the oldest turn first."""

    turns: tuple[ChatTurn, ...]

    @property
    def text(self) -> str:
        """All that was said, one turn behind the other."""
        return "".join(turn.content for turn in self.turns)

    def with_system(self, system: str) -> "ChatTurns":
        """Return the conversation with a system text, unless it begins with one of its own."""
        if not system or (self.turns and self.turns[0].role == SYSTEM):
            return self
        return ChatTurns((ChatTurn(SYSTEM, system), *self.turns))

    def without_system(self) -> "ChatTurns":
        """Return the conversation with its system text at the start of what the user says first."""
        first, *others = self.turns
        if first.role != SYSTEM:
            return self
        place = next((i for i, turn in enumerate(others) if turn.role == USER), None)
        if place is None:
            return ChatTurns((ChatTurn(USER, first.content), *others))
        joined = f"{first.content}\n\n{others[place].content}"
        others[place] = replace(others[place], content=joined)
        return ChatTurns(tuple(others))


@dataclass(frozen=True, slots=True)
class BareText:
    """A text that the model is to go on with, without a chat template around it."""

    text: str
