"""Prompts as text, for models whose tokens are another server's own matter."""

from collections.abc import Sequence
from dataclasses import dataclass

from heddle.core.passages import Passage
from heddle.core.payloads import Segment, SegmentRole
from heddle.core.prompts.chat_turns import BareText, ChatTurns
from heddle.core.system_text import PromptPart, SystemText

CONTEXT_TOKENS_UNKNOWN = 1 << 20  # no bound of Heddle's own: the other server knows its context


@dataclass(frozen=True, slots=True)
class TextPrompts:
    """Satisfies heddle.core.ports.Tokenizer without tokens: each segment holds its text.

    Args:
        context_tokens_max: the context of the model, as its server reports it.
    """

    context_tokens_max: int = CONTEXT_TOKENS_UNKNOWN

    def encode_prompt(self, parts: Sequence[PromptPart]) -> tuple[Segment, ...]:
        """Return an empty head, one segment for each part or turn, and an empty tail."""
        return (Segment(()), *(s for part in parts for s in _segments(part)), Segment(()))

    def check_length(self, parts: Sequence[PromptPart]) -> None:
        """Do nothing: how long the other server's tokens are is not known."""

    def encode_slot(self, text: str) -> tuple[int, ...]:
        """Return no token ids: no slot of a remote model's prompt is filled later."""
        return ()


def _segments(part: PromptPart) -> tuple[Segment, ...]:
    if isinstance(part, ChatTurns):
        return tuple(Segment((), SegmentRole.TURN, turn=turn) for turn in part.turns)
    return (_segment(part),)


def _segment(part: str | SystemText | Passage | BareText | None) -> Segment:
    if part is None:
        return Segment(None, SegmentRole.SLOT)
    if isinstance(part, SystemText):
        return Segment((), SegmentRole.SYSTEM, text=part.text)
    if isinstance(part, Passage):
        return Segment((), SegmentRole.CHUNK, part.chunk_id, text=part.render())
    if isinstance(part, BareText):
        return Segment((), SegmentRole.BARE, text=part.text)
    return Segment((), text=part)
