"""Conversations as segments of token ids, through the model's chat template."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from tokenizers import Tokenizer

from heddle.core.errors import InputError
from heddle.core.payloads import Segment
from heddle.core.prompts.chat_turns import SYSTEM, ChatTurn, ChatTurns
from heddle.core.texts.text_check import check_unicode
from heddle.engines.llm.text.chat_template import ChatTemplate
from heddle.engines.llm.text.template_ids import absorbed_lead, control_ids, head_ids

PIECES_KEPT: Final = 512  # texts of the template between two contents: roles and their marks
PIECE_CHARS_KEPT: Final = 512  # a longer one holds a message's own fields
REASON_CHARS_MAX: Final = 200
MARKER: Final = "heddle0turn{}marker"  # letters and digits: no template trims or escapes them
_MARKED: Final = re.compile(r"heddle0turn(\d+)marker")

EncodeText = Callable[[str, bool], tuple[int, ...]]


class TurnPrompts:
    """Encodes conversations: the template's own text with its control tokens, contents without.

    The template is rendered with a marker in the place of each content, and split there. So no
    content can write a control token, and a template that trims contents is not followed in that.
    What else a message holds (`fields`) is the template's own to write: a control token in it is
    refused.

    Args:
        template: the model's.
        tokenizer: recognises control tokens; no other caller changes it.
        controls: the texts of the control tokens.
    """

    def __init__(
        self, template: ChatTemplate, tokenizer: Tokenizer, controls: Mapping[str, int]
    ) -> None:
        self._template = template
        self._tokenizer = tokenizer
        self._controls = tuple(text for text in controls if text)
        self._lead = absorbed_lead(tokenizer)
        self._kept_ids = lru_cache(maxsize=PIECES_KEPT)(self._encode_piece)

    def encode(self, chat: ChatTurns, encode_text: EncodeText) -> tuple[Segment, ...]:
        """Return the segments of a conversation, ready for the model's next turn.

        Args:
            chat: the turns.
            encode_text: returns the ids of a content; the flag says whether a line begins with it.

        Raises:
            InputError: the template refuses the turns, or leaves one out; or a field of one holds
                half a character.
        """
        if chat.turns and chat.turns[0].role == SYSTEM and self._template.system_head is None:
            chat = chat.without_system()
        around = self._around(chat.turns)
        contents = [turn.content for turn in chat.turns if turn.content]
        segments: list[Segment] = []
        for place, content in enumerate(contents):
            before = around[place]
            # As between two texts of a prompt: the space goes with the word after it.
            takes_space = before.endswith(" ") and not content[0].isspace()
            ids = self._ids(before.removesuffix(" ") if takes_space else before, place == 0)
            lead = " " if takes_space else "" if ids or place else self._lead
            segments += (Segment(ids), Segment(encode_text(lead + content, before.endswith("\n"))))
        return (*segments, Segment(self._ids(around[-1], not contents)))

    def _around(self, turns: tuple[ChatTurn, ...]) -> tuple[str, ...]:
        """Return the template's text before each content that isn't empty, and behind the last."""
        messages = [self._message(number, turn) for number, turn in enumerate(turns)]
        try:
            rendered = self._template.render(messages)
        except Exception as error:  # a template is a program of the model's author: any can come
            reason = str(error)[:REASON_CHARS_MAX] or type(error).__name__
            raise InputError(
                f"messages: the model's chat template refuses these turns: {reason}",
                param="messages",
            ) from error
        shown = [int(found.group(1)) for found in _MARKED.finditer(rendered)]
        wanted = [number for number, turn in enumerate(turns) if turn.content]
        if shown != wanted:
            lost = next((n for n in wanted if shown.count(n) != 1), wanted[0] if wanted else 0)
            raise InputError(
                f"messages.{lost}: the model's chat template has no place for a message of role "
                f"{turns[lost].role!r} there: leave it out",
                param="messages",
            )
        return tuple(_MARKED.sub("\0", rendered).split("\0"))

    def _message(self, number: int, turn: ChatTurn) -> dict[str, object]:
        for text in _texts(turn.fields):
            check_unicode(text, f"messages.{number}")
            found = next((c for c in self._controls if c in text), None)
            if found is not None or _MARKED.search(text) or "\0" in text:
                raise InputError(
                    f"messages.{number}: a field beside its content holds "
                    f"{found or 'a character'!r}, which the model's chat template keeps for "
                    "itself: take it out",
                    param="messages",
                )
        content = MARKER.format(number) if turn.content else ""
        return {**turn.fields, "role": turn.role, "content": self._template.shown(content)}

    def _ids(self, text: str, is_first: bool) -> tuple[int, ...]:
        encode = self._kept_ids if len(text) <= PIECE_CHARS_KEPT else self._encode_piece
        return encode(text, is_first)

    def _encode_piece(self, text: str, is_first: bool) -> tuple[int, ...]:
        if is_first:
            return head_ids(self._tokenizer, text)[0]
        return control_ids(self._tokenizer, text)


def _texts(value: object) -> Iterator[str]:
    """Yield every text in a JSON value, names of fields included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield str(name)
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
