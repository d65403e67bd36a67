"""The system text of a prompt, which says what the model is to be."""

from dataclasses import dataclass

from heddle.core.passages import Passage


@dataclass(frozen=True, slots=True)
class SystemText:
    """A prompt's first part where it has a system text.

    A chat template puts it where it has system messages. Without such a place it begins the prompt.
    """

    text: str


PromptPart = str | SystemText | Passage | None
"""A piece of a prompt: text, a passage, or None for a slot that is not written yet."""
