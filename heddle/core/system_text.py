"""The system text of a prompt, which says what the model is to be."""

from dataclasses import dataclass

from heddle.core.passages import Passage
from heddle.core.prompts.chat_turns import BareText, ChatTurns


@dataclass(frozen=True, slots=True)
class SystemText:
    """A prompt's first part where it has a system text.

    A chat template puts it where it has system messages. Without such a place it begins the prompt.
    """

    text: str


PromptPart = str | SystemText | Passage | ChatTurns | BareText | None
"""A piece of a prompt: text, a passage, or None for a slot that is not written yet.

Turns, and a bare text, are a whole prompt: only a system text may stand before them.
"""
