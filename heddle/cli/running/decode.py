"""From a server's JSON back to the values that it was made of."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from heddle.core import errors
from heddle.core.errors import EngineError, HeddleError, InternalError
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
from heddle.runtime.receipt import Receipt

Json = Mapping[str, Any]


def decoded(kind: Any, value: Any) -> Any:  # noqa: ANN401 - of any type
    """Return the value of a type that JSON stands for: what `dataclasses.asdict` made of it.

    Fields that the value lacks keep their defaults; fields that the type lacks are left out.
    """
    if value is None or kind is Any:
        return value
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return decoded(next(one for one in inner if one is not NoneType), value)
    if origin is tuple:
        if len(inner) == 2 and inner[1] is Ellipsis:
            return tuple(decoded(inner[0], one) for one in value)
        return tuple(decoded(one, part) for one, part in zip(inner, value, strict=True))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        names = [field.name for field in fields(kind) if field.init and field.name in value]
        return kind(**{name: decoded(hints[name], value[name]) for name in names})
    return value


def event_of(name: str, data: Json) -> RequestEvent | None:
    """Return an event of a stream; None = one that this version doesn't know."""
    kinds: dict[str, Callable[[], RequestEvent]] = {
        "token": lambda: TokenDelta(data["node"], data["text"]),
        "retrieved": lambda: Retrieved(data["node"], passages_of(data)),
        "node_started": lambda: NodeStarted(data["node"], data["turn"]),
        "node_finished": lambda: NodeFinished(data["node"], data["turn"]),
        "answer": lambda: answer_of(data),
        "error": lambda: RequestFailed(error_of(data)),
    }
    return kinds[name]() if name in kinds else None


def passages_of(data: Json) -> tuple[Passage, ...]:
    """Return the passages of an object that has some."""
    return tuple(decoded(Passage, one) for one in data["passages"])


def answer_of(data: Json) -> Answer:
    """Return an answer without its slots, which no server sends."""
    return Answer(
        data["answer"],
        passages_of(data),
        {},
        decoded(Receipt, data["receipt"]),
        tuple(_quotation(one) for one in data.get("quotes", ())),
        tuple(_quotation(one) for one in data.get("nearest", ())),
    )


def error_of(data: Json) -> HeddleError:
    """Return the error that a reply names, of its own class where that takes a message alone."""
    found = data.get("error", {})
    message = str(found.get("message", "the server sent no reason"))
    kind = getattr(errors, str(found.get("type", "")), None)
    if isinstance(kind, type) and issubclass(kind, HeddleError):
        try:
            return kind(message)
        except TypeError:
            return EngineError(message, engine="the running server", request_ids=())
    return InternalError(message)


def _quotation(data: Json) -> Quotation:
    """Return a quote, in a passage that is cut to its sentence."""
    place = data["place"]
    sentence, text = str(data["sentence"]), str(data["text"])
    start = max(0, sentence.find(text))
    passage = decoded(
        Passage,
        {
            "chunk_id": data["chunk_id"],
            "document_id": data["document_id"],
            "title": data["title"],
            "text": sentence,
            # Such that the quote has the characters in its document that the server says.
            "place": {**place, "start": data["start"] - start},
        },
    )
    return Quotation(text, sentence, passage, start, start + len(text), 0, data["score"])
