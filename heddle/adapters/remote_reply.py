"""What a running server answers: its streams, passages and errors, as values."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from heddle.adapters.values import ChatReply, ToolRequest
from heddle.core.errors import (
    Busy,
    Cancelled,
    ConfigError,
    DeadlineExceeded,
    EngineError,
    HeddleError,
    InputError,
    InternalError,
    StorageError,
    Unreachable,
    WorkflowError,
)
from heddle.core.passages import Passage, Place

DATA: Final = "data:"
DONE: Final = "[DONE]"
# By the name that an error has in a reply; Busy and EngineError need more than their words.
ERRORS: Final[Mapping[str, type[HeddleError]]] = {
    kind.__name__: kind
    for kind in (
        Cancelled,
        ConfigError,
        DeadlineExceeded,
        InternalError,
        StorageError,
        Unreachable,
        WorkflowError,
    )
}
TOO_MANY: Final = (429, 503)
CALLER_FAULTS: Final = range(400, 500)
# What reading JSON raises that is of another form, or nested too deeply.
UNREADABLE: Final = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


class ChatStream:
    """The server-sent events of a chat, line by line.

    Args:
        model: the LLM's name.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._text: list[str] = []
        self._calls: tuple[ToolRequest, ...] = ()
        self._reason = ""
        self._usage: Mapping[str, Any] = {}
        self._receipt: Mapping[str, Any] = {}

    def items(self, line: str) -> Iterator[str]:
        """Yield the text that a line adds.

        Raises:
            HeddleError: it is the error that ended the chat.
        """
        data = line.removeprefix(DATA).strip() if line.startswith(DATA) else ""
        if not data or data == DONE:
            return
        try:
            pieces = self._taken(json.loads(data))
        except HeddleError:
            raise
        except UNREADABLE as error:
            words = f"sent an event that can't be read: {data:.60}"
            raise EngineError(words, engine=self._model, request_ids=()) from error
        yield from pieces

    def _taken(self, chunk: Mapping[str, Any]) -> list[str]:
        """Take a chunk in, and return the pieces of text that it adds."""
        if "error" in chunk:
            raise _named(chunk["error"], status=500)
        pieces: list[str] = []
        self._usage = chunk.get("usage") or self._usage
        self._receipt = (chunk.get("heddle") or {}).get("receipt") or self._receipt
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            self._calls = _calls(delta) or self._calls
            self._reason = choice.get("finish_reason") or self._reason
            if delta.get("content"):
                pieces.append(delta["content"])
        self._text += pieces
        return pieces

    def reply(self) -> ChatReply:
        """Return the whole answer.

        Raises:
            EngineError: the stream has broken off before its end.
        """
        if not self._reason:
            raise EngineError("the stream broke off", engine=self._model, request_ids=())
        details = self._usage.get("prompt_tokens_details") or {}
        return ChatReply(
            text="".join(self._text),
            tool_calls=self._calls,
            finish_reason=self._reason,
            prompt_tokens=self._usage.get("prompt_tokens", 0),
            cached_tokens=details.get("cached_tokens", 0),
            completion_tokens=self._usage.get("completion_tokens", 0),
            model=self._model,
            receipt=self._receipt,
        )


def passage_of(body: Mapping[str, Any]) -> Passage:
    """Return a passage of a reply."""
    place = body["place"]
    return Passage(
        chunk_id=body["chunk_id"],
        document_id=body["document_id"],
        title=body["title"],
        text=body["text"],
        distance=body["distance"],
        place=Place(**{**place, "heading": tuple(place["heading"])}),
        copies=body["copies"],
        score=body["score"],
    )


def error_of(status: int, body: bytes, headers: Mapping[str, str]) -> HeddleError:
    """Return the error that a reply says, of the class that it has in the server."""
    try:
        error = json.loads(body)["error"]
    except UNREADABLE:
        error = None
    if not isinstance(error, Mapping):
        text = body.decode(errors="replace")
        error = {"message": f"status {status}: {text:.200}", "type": ""}
    wait_ms = headers.get("retry-after-ms", "")
    return _named(error, status, float(wait_ms) / 1e3 if wait_ms.isdecimal() else 1.0)


def _named(error: Mapping[str, Any], status: int, wait_s: float = 1.0) -> HeddleError:
    message, kind = str(error.get("message", "")), str(error.get("type", ""))
    if kind in ERRORS:
        return ERRORS[kind](message)
    if kind == Busy.__name__ or status in TOO_MANY:
        return Busy(message, wait_s=wait_s)
    if kind == InputError.__name__ or status in CALLER_FAULTS:
        return InputError(message, param=error.get("param") or "", code=error.get("code") or "")
    return EngineError(message, engine="server", request_ids=())


def _calls(delta: Mapping[str, Any]) -> tuple[ToolRequest, ...]:
    return tuple(
        ToolRequest(one["id"], one["function"]["name"], one["function"]["arguments"])
        for one in delta.get("tool_calls") or ()
    )
