"""The text of an answer that may be a call of a tool."""

from typing import Final

from heddle.app.chat.answer_form import AnswerForm
from heddle.app.chat.answer_text import AnswerText
from heddle.app.chat.tool_calls import CALL_MARK, ToolCall, parse, without_calls
from heddle.runtime.events import Answer, RequestEvent

FENCE: Final = "```json"


class CallText:
    """Shows an answer's words as they come, and keeps back what may yet be a call.

    Calls are known when the answer is whole. What isn't one, such as a call that `max_tokens` has
    cut, is shown as the words that it is.

    Args:
        text: the answer's text, piece by piece.
        form: the tools, and how many calls are returned.
    """

    def __init__(self, text: AnswerText, form: AnswerForm) -> None:
        self._text, self._form = text, form
        self.shown = ""
        self.calls: tuple[ToolCall, ...] = ()

    def take(self, event: RequestEvent) -> str:
        """Return the words that an event adds; "" = none."""
        self._text.take(event)
        whole = self._text.shown
        words = self._words(whole) if isinstance(event, Answer) else self._sure(whole)
        new = words[len(self.shown) :]
        self.shown += new
        return new

    def _words(self, whole: str) -> str:
        """Return the words of the whole answer, and note its calls."""
        found = parse(whole, self._form.choice)
        self.calls = found[:1] if self._form.is_one_call else found
        if not found:
            return whole
        words = without_calls(whole)
        return words if words.strip() else ""

    def _sure(self, text: str) -> str:
        """Return the beginning that can't belong to a call."""
        if self._form.constraint is not None or may_begin_call(text):
            return ""
        words, mark, _ = text.partition(CALL_MARK)
        if not mark:
            words = words[: len(words) - _mark_begun(words)]
        return words if words.strip() else ""


def may_begin_call(text: str) -> bool:
    """Whether a text that begins so may become JSON of a call, perhaps in a fence."""
    rest = text.lstrip()
    if FENCE.startswith(rest):
        return True
    if rest.startswith("```"):
        rest = rest.removeprefix("```").removeprefix("json").lstrip()
    if rest.startswith("["):
        rest = rest[1:].lstrip()
    if rest.startswith("{"):
        rest = rest[1:].lstrip()
        return not rest or rest.startswith('"')
    return not rest


def _mark_begun(text: str) -> int:
    """Return how many characters at a text's end may begin a call's mark."""
    lengths = range(len(CALL_MARK) - 1, 0, -1)
    return next((n for n in lengths if text.endswith(CALL_MARK[:n])), 0)
