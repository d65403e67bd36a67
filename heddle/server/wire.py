"""Answers, events and errors as JSON."""

import json
import math
from dataclasses import asdict
from enum import Enum
from typing import Final

from heddle.core.errors import (
    Busy,
    Cancelled,
    ConfigError,
    DeadlineExceeded,
    DiskFull,
    HeddleError,
    InputError,
    WorkflowError,
)
from heddle.core.passages import Passage
from heddle.core.quotations import Quotation
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
CLIENT_CLOSED: Final = 499  # nginx's: nobody is there to read the reply
# A ConfigError of one request asks for what this server was not made for: the caller's to change.
STATUS: Final[dict[type[HeddleError], int]] = {
    InputError: 400,
    WorkflowError: 400,
    ConfigError: 400,
    Cancelled: CLIENT_CLOSED,
    Busy: 503,
    DeadlineExceeded: 504,
    DiskFull: 507,
}


def encode_json(value: Json) -> bytes:
    """Return a value as UTF-8; enums as their values."""
    return _ENCODER.encode(value).encode()


def answer_json(answer: Answer) -> Json:
    """Return an answer with its quotes, its passages and its receipt."""
    return {
        "answer": answer.text,
        "quotes": [quotation_json(quotation) for quotation in answer.quotes],
        "nearest": [quotation_json(quotation) for quotation in answer.nearest],
        "passages": [passage_json(passage) for passage in answer.passages],
        "receipt": asdict(answer.receipt),
    }


def search_json(answer: Answer) -> Json:
    """Return what a search found, without the text that it hasn't."""
    return {
        "passages": [passage_json(passage) for passage in answer.passages],
        "receipt": asdict(answer.receipt),
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


def event_json(event: RequestEvent) -> tuple[str, Json]:
    """Return an event's name in the stream and its data."""
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
            return "answer", answer_json(event)
        case RequestFailed(error=error):
            return "error", {**error_json(error), "status": error_status(error)}


def error_json(error: HeddleError) -> Json:
    """Return an error's kind and message; never a traceback."""
    return {"error": {"type": type(error).__name__, "message": str(error)}}


def error_status(error: HeddleError) -> int:
    """Return the HTTP status of an error; 500 is ours to mend."""
    return next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)


def error_headers(error: HeddleError) -> dict[str, str]:
    """Return the headers that go with an error: when to come back."""
    return retry_headers(error.wait_s) if isinstance(error, Busy | DiskFull) else {}


def retry_headers(wait_s: float) -> dict[str, str]:
    """Return the headers that say when to come back.

    `Retry-After` knows whole seconds only; OpenAI's clients read `retry-after-ms` first.
    """
    seconds, milliseconds = math.ceil(wait_s), math.ceil(wait_s * 1e3)
    return {"Retry-After": str(max(1, seconds)), "retry-after-ms": str(max(1, milliseconds))}


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    raise TypeError(f"{type(value).__name__} has no JSON form")


# Made once: json.dumps makes one for each call, and each token of a stream is a call.
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, default=_plain, separators=(",", ":"))
