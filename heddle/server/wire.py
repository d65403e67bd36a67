"""Answers, events and errors as JSON."""

import json
import math
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from functools import cache
from http import HTTPStatus
from typing import Any, Final

from heddle.core.errors import (
    TOO_LONG,
    Busy,
    Cancelled,
    ConfigError,
    DeadlineExceeded,
    DiskFull,
    HeddleError,
    InputError,
    Unreachable,
    WorkflowError,
)
from heddle.core.passages import Passage
from heddle.core.quotations import Quotation
from heddle.exporters.timeline import timeline_json
from heddle.runtime.events import (
    Answer,
    NodeFinished,
    NodeStarted,
    RequestEvent,
    RequestFailed,
    Retrieved,
    TokenDelta,
)

Json = dict[str, object]
CLIENT_CLOSED: Final = 499  # nginx's: the client is not there to read the reply
# A ConfigError of one request asks for what this server was not made for: the caller's to change.
STATUS: Final[dict[type[HeddleError], int]] = {
    InputError: 400,
    WorkflowError: 400,
    ConfigError: 400,
    Cancelled: CLIENT_CLOSED,
    Busy: 503,
    DeadlineExceeded: 504,
    DiskFull: 507,
    Unreachable: 503,
}
# What OpenAI's clients read; None stands where the message alone says what to change.
CODES: Final[dict[type[HeddleError], str]] = {
    Cancelled: "request_cancelled",
    Busy: "server_is_overloaded",
    DeadlineExceeded: "deadline_exceeded",
    DiskFull: "disk_full",
    Unreachable: "corpus_unreachable",
}
TOO_LONG_WORDS: Final = "this model's maximum context length is exceeded"  # litellm looks for them
STATUS_CODES: Final[dict[int, str]] = {
    401: "invalid_api_key",
    403: "insufficient_permissions",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    413: "request_too_large",
    415: "unsupported_media_type",
    421: "misdirected_request",
    429: "rate_limit_exceeded",
    431: "headers_too_large",
    503: "server_is_overloaded",
}


def encode_json(value: Json) -> bytes:
    """Return a value as UTF-8, in one line; enums as their values, dataclasses as objects.

    A byte of a path that is no UTF-8, as an error may name, is a question mark.
    """
    return _one_line(_ENCODER.encode(value)).encode(errors="replace")


def encode_text(text: str) -> bytes:
    """Return a text as JSON has it, in UTF-8 and in one line."""
    return _one_line(_ENCODER.encode(text)).encode()


def answer_json(answer: Answer, *, timeline: bool = False) -> Json:
    """Return an answer with its quotes, its passages and its receipt, and perhaps its timeline."""
    return {
        "answer": answer.text,
        "quotes": [quotation_json(quotation) for quotation in answer.quotes],
        "nearest": [quotation_json(quotation) for quotation in answer.nearest],
        "passages": [passage_json(passage) for passage in answer.passages],
        "receipt": answer.receipt,
        **({"timeline": timeline_json(answer.receipt)} if timeline else {}),
    }


def search_json(answer: Answer) -> Json:
    """Return what a search found, without the text that it hasn't."""
    return {
        "passages": [passage_json(passage) for passage in answer.passages],
        "receipt": answer.receipt,
    }


def passage_json(passage: Passage) -> Json:
    """Return a passage as clients see it."""
    return {
        "title": passage.title,
        "text": passage.text,
        "document_id": passage.document_id,
        "chunk_id": passage.chunk_id,
        "place": asdict(passage.place),
        "copies": passage.copies,
        "distance": passage.distance,
        "score": passage.score,
    }


def quotation_json(quotation: Quotation) -> Json:
    """Return a quote as clients see it; `start` and `end` count in its document's text."""
    passage = quotation.passage
    offset = passage.place.start
    return {
        "text": quotation.text,
        "sentence": quotation.sentence,
        "score": quotation.score,
        "start": offset + quotation.start,
        "end": offset + quotation.end,
        "chunk_id": passage.chunk_id,
        "document_id": passage.document_id,
        "title": passage.title,
        "place": asdict(passage.place),
    }


def event_json(event: RequestEvent, *, timeline: bool = False) -> tuple[str, Json]:
    """Return an event's name in the stream and its data; an answer's perhaps with its timeline."""
    match event:
        case TokenDelta(node=node, text=text):
            return "token", {"node": node, "text": text}
        case Retrieved(node=node, passages=passages):
            return "retrieved", {"node": node, "passages": [passage_json(p) for p in passages]}
        case NodeStarted(node=node, turn=turn):
            return "node_started", {"node": node, "turn": turn}
        case NodeFinished(node=node, turn=turn):
            return "node_finished", {"node": node, "turn": turn}
        case Answer():
            return "answer", answer_json(event, timeline=timeline)
        case RequestFailed(error=error):
            return "error", {**error_json(error), "status": error_status(error)}


def error_json(error: HeddleError) -> Json:
    """Return an error's kind, message, field and code; never a traceback."""
    code = next((code for kind, code in CODES.items() if isinstance(error, kind)), None)
    param, message = None, str(error)
    if isinstance(error, InputError):
        param, code = error.param or None, error.code or None
        message = f"{TOO_LONG_WORDS}: {message}" if code == TOO_LONG else message
    return error_body(type(error).__name__, message, param, code)


def status_error_json(status: int, message: str, *, param: str = "", code: str = "") -> Json:
    """Return the body of a refusal that is named by its status of HTTP."""
    kind = HTTPStatus(status).phrase.replace(" ", "")
    return error_body(kind, message, param or None, code or STATUS_CODES.get(status))


def error_body(kind: str, message: str, param: str | None, code: str | None) -> Json:
    """Return an error as every route sends it, in OpenAI's shape."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error_status(error: HeddleError) -> int:
    """Return the HTTP status of an error; 500 is ours to mend."""
    return next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)


def error_headers(error: HeddleError) -> dict[str, str]:
    """Return the headers that go with an error: when to come back, and whether to.

    OpenAI's clients retry every status of 500 or more, unless `x-should-retry` is "false".
    """
    if isinstance(error, DeadlineExceeded):
        return {"x-should-retry": "false"}
    return retry_headers(error.wait_s) if isinstance(error, Busy | DiskFull | Unreachable) else {}


def retry_headers(wait_s: float) -> dict[str, str]:
    """Return the headers that say when to come back.

    `Retry-After` knows whole seconds only; OpenAI's clients read `retry-after-ms` first.
    """
    seconds, milliseconds = math.ceil(wait_s), math.ceil(wait_s * 1e3)
    return {"Retry-After": str(max(1, seconds)), "retry-after-ms": str(max(1, milliseconds))}


def _one_line(encoded: str) -> str:
    """Return JSON with every line break of Unicode escaped.

    JSON itself escapes those of ASCII. Clients that cut a stream with Python's `str.splitlines`,
    as httpx does, would break an event at the others. They can only stand within strings.
    """
    if not encoded.isascii():
        for mark, escaped in _LINE_BREAKS:
            encoded = encoded.replace(mark, escaped)
    return encoded


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return {name: getattr(value, name) for name in _names(value.__class__)}
    raise TypeError(f"{type(value).__name__} has no JSON form")


@cache
def _names(kind: Any) -> tuple[str, ...]:  # noqa: ANN401 - a class of dataclasses
    return tuple(one.name for one in fields(kind))


# Made once: json.dumps makes one for each call, and each token of a stream is a call.
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, default=_plain, separators=(",", ":"))
_LINE_BREAKS: Final = tuple((mark, f"\\u{ord(mark):04x}") for mark in "\x85\u2028\u2029")
