"""An answer as it comes: events, or a whole JSON object of servers that don't stream."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from heddle.core.results import FinishReason
from heddle.engines.remote.http.client import Response
from heddle.engines.remote.http.event_reader import EventReader
from heddle.engines.remote.problem import RemoteProblem, Trouble
from heddle.engines.remote.refusal import no_json

TEXT_CHARS_MAX: Final = 1 << 20
WHOLE_BYTES_MAX: Final = 8 << 20
ERROR_BYTES_MAX: Final = 64 << 10
_DONE: Final = b"[DONE]"
# How OpenRouter, and vLLM and SGLang, end an answer that broke off over there.
_BROKEN_OFF: Final = ("error", "abort")


class AnswerStream:
    """Takes one response in; `on_text` hears each new piece of the answer.

    What is wrong with the response is raised as RemoteProblem: at once for an event that can't
    be read, by `check` for an answer that has no end.
    """

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self._events: EventReader | None = None
        self._whole = bytearray()
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.parts: list[str] = []
        self.chars = 0
        self.bytes_seen = 0
        self.reason: FinishReason | None = None
        self.is_filtered = False
        self.has_thought = False
        self.usage: Mapping[str, Any] = {}
        self.is_satisfied = False

    @property
    def response(self) -> Response:
        """What came, where it is no answer."""
        return Response(self.status, self.headers, bytes(self._whole))

    @property
    def text(self) -> str:
        """The answer so far."""
        return "".join(self.parts)

    def on_head(self, status: int, headers: Mapping[str, str]) -> None:
        """Take status and headers; see ResponseSink."""
        self.status, self.headers = status, headers
        if status != 200:
            return
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/event-stream":
            self._events = EventReader()
        elif not kind.endswith("json"):
            what = "a web page" if kind == "text/html" else "something that is no JSON"
            words = f"answers with {what}: it is no API of models, or its path is another"
            raise RemoteProblem(Trouble.NO_API, words)

    def on_body(self, data: bytes) -> None:
        """Take some bytes of the body; see ResponseSink."""
        self.bytes_seen += len(data)
        if self._events is not None:
            for event in self._events.feed(data):
                self._take_event(event)
            return
        self._whole += data
        if self.status != 200:
            del self._whole[ERROR_BYTES_MAX:]
        elif len(self._whole) > WHOLE_BYTES_MAX:
            raise no_json(f"an answer of more than {WHOLE_BYTES_MAX >> 10:,} KiB")

    def on_end(self) -> None:
        """Take in that the response is complete; see ResponseSink."""
        if self._events is not None:
            for event in self._events.close():
                self._take_event(event)
        elif self.status == 200:
            self._take(_read(bytes(self._whole)), "message")

    def check(self) -> None:
        """Refuse an answer that has not come to its end.

        Raises:
            RemoteProblem: the stream ended and the answer did not.
        """
        if self.reason is None and not self.is_satisfied:
            raise RemoteProblem(Trouble.CUT, "ended its stream in the middle of the answer")

    def _take_event(self, event: bytes) -> None:
        if self.is_satisfied:
            return
        if event == _DONE:
            self.is_satisfied = True
        else:
            self._take(_read(event), "delta")

    def _take(self, chunk: dict[str, Any], where: str) -> None:
        choices = chunk.get("choices")
        if choices is None and "choices" in chunk:
            choices = []  # as servers in Go write an empty list
        if chunk.get("error"):  # beside choices, too: OpenRouter shows empty ones
            raise _reported_error()
        if not isinstance(choices, list):
            if "error" in chunk:
                raise _reported_error()
            raise no_json("an event that is no part of an answer")
        if isinstance(chunk.get("usage"), dict):
            self.usage = chunk["usage"]
        for choice in choices[:1]:
            if not isinstance(choice, dict):
                raise no_json("an event that is no part of an answer")
            self._take_choice(choice, where)

    def _take_choice(self, choice: dict[str, Any], where: str) -> None:
        piece = choice.get(where)
        content = piece.get("content") if isinstance(piece, dict) else choice.get("text")
        text = _joined(content) if isinstance(content, list) else content
        if isinstance(piece, dict) and not text:
            thought = content or piece.get("reasoning_content") or piece.get("reasoning")
            self.has_thought |= bool(thought)
        if text is not None and not isinstance(text, str):
            raise no_json("an event whose content is no text")
        if text:
            if not text.isascii():  # JSON can hold halves of characters, which no output can
                text = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
            self.chars += len(text)
            if self.chars > TEXT_CHARS_MAX:
                raise no_json(f"an answer of more than {TEXT_CHARS_MAX:,} characters")
            self.parts.append(text)
            self._on_text(text)
        reason = choice.get("finish_reason")
        if reason in _BROKEN_OFF:
            raise _reported_error()
        if reason:
            self.reason = FinishReason.LENGTH if reason == "length" else FinishReason.STOP
            self.is_filtered = reason == "content_filter"


def _joined(parts: list[Any]) -> str:
    """Return the text of a content in parts, without thoughts: Mistral's reasoning models."""
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return "".join(text for text in texts if isinstance(text, str))


def _reported_error() -> RemoteProblem:
    return RemoteProblem(Trouble.FAILED, "reported an error in its stream")


def _read(event: bytes) -> dict[str, Any]:
    try:
        value = json.loads(event)
    except (ValueError, RecursionError):
        raise no_json("an event that is no JSON") from None
    if not isinstance(value, dict):
        raise no_json("an event that is no part of an answer")
    return value
