"""Replies in OpenAI's shape: whole, and as the chunks of a stream."""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Final

from heddle import __version__
from heddle.app.chat.answer_text import AnswerText
from heddle.app.chat.call_text import CallText
from heddle.app.chat.tool_calls import ToolCall
from heddle.core.results import FinishReason
from heddle.runtime.events import Answer, RequestEvent, RequestFailed
from heddle.runtime.receipt import Receipt
from heddle.server.openai.sources import annotations, heddle_json, sources_block, sources_of
from heddle.server.openai.text_frames import TextFrames
from heddle.server.wire import Json, encode_json, error_json

DONE: Final = b"data: [DONE]\n\n"
FINGERPRINT: Final = f"heddle-{__version__}"


class ReplyShape(Enum):
    """The call that is answered: its objects' names, and the beginning of their ids."""

    CHAT = ("chat.completion", "chat.completion.chunk", "chatcmpl-")
    COMPLETION = ("text_completion", "text_completion", "cmpl-")


@dataclass(slots=True)
class Reply:
    """One reply, made of a request's events.

    Args:
        shape: of the call.
        model: the name that the client asked for.
        workflow: the workflow's name; empty = the LLM alone.
        text: says which tokens are the answer.
        ignored: fields of the request that have no effect, as no model writes the answer.
        has_sources_block: whether the text ends with its sources.
        has_usage_chunk: whether a stream ends with a chunk that counts the tokens.

    Mutates: `text`, as events come.
    """

    shape: ReplyShape
    model: str
    workflow: str
    text: AnswerText | CallText
    ignored: tuple[str, ...] = ()
    has_sources_block: bool = False
    has_usage_chunk: bool = False
    _id: str = field(init=False)
    _created: int = field(init=False)
    _text_frames: TextFrames | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._id = self.shape.value[2] + uuid.uuid4().hex
        self._created = int(datetime.now(UTC).timestamp())

    def whole(self, answer: Answer) -> Json:
        """Return the reply to a request whose events the text has taken."""
        return {
            **self._head(self.shape.value[0]),
            "choices": [self._whole_choice(answer)],
            "usage": usage_json(answer.receipt),
            "heddle": heddle_json(answer, self.workflow, self.ignored),
        }

    def frames(self, event: RequestEvent) -> Iterator[bytes]:
        """Yield what an event adds to the stream, as server-sent events."""
        is_first = not self.text.shown
        new = self.text.take(event)
        if is_first and (new or isinstance(event, Answer)) and self.shape is ReplyShape.CHAT:
            is_call = self.text.calls and not new
            yield self._chunk({"role": "assistant", "content": None if is_call else ""})
        if new:
            yield self._text_chunk(new)
        if isinstance(event, Answer):
            yield from self._last_frames(event)
        elif isinstance(event, RequestFailed):
            yield _frame(error_json(event.error))

    def _last_frames(self, answer: Answer) -> Iterator[bytes]:
        block = self._block(answer)
        if block:
            yield self._text_chunk(block)
        if self.text.calls:
            yield self._chunk({"tool_calls": [*calls_json(self.text.calls, is_stream=True)]})
        found = annotations(sources_of(answer), self.text.shown)
        delta: Json = {"annotations": found} if found else {}
        yield self._chunk(delta, self._reason(answer), answer)
        if self.has_usage_chunk:
            yield self._frame_of([], usage=usage_json(answer.receipt))
        yield DONE

    def _block(self, answer: Answer) -> str:
        return sources_block(answer) if self.has_sources_block else ""

    def _whole_choice(self, answer: Answer) -> Json:
        content = self.text.shown + self._block(answer)
        found = annotations(sources_of(answer), self.text.shown)
        end: Json = {"index": 0, "finish_reason": self._reason(answer), "logprobs": None}
        if self.shape is ReplyShape.COMPLETION:
            return {**end, "text": content}
        message: Json = {"role": "assistant", "content": content, "refusal": None}
        if self.text.calls:
            message["content"] = content or None
            message["tool_calls"] = [*calls_json(self.text.calls)]
        return {**end, "message": {**message, **({"annotations": found} if found else {})}}

    def _reason(self, answer: Answer) -> str:
        return "tool_calls" if self.text.calls else finish_reason(answer)

    def _text_chunk(self, text: str) -> bytes:
        if self._text_frames is None:  # each token of a stream is one
            self._text_frames = TextFrames.like(lambda sample: self._chunk({"content": sample}))
        return self._text_frames.frame(text)

    def _chunk(self, delta: Json, reason: str | None = None, answer: Answer | None = None) -> bytes:
        choice: Json = {"index": 0, "finish_reason": reason, "logprobs": None}
        if self.shape is ReplyShape.CHAT:
            choice["delta"] = delta
        else:
            choice["text"] = delta.get("content", "")
        if answer is None:
            return self._frame_of([choice])
        return self._frame_of([choice], heddle=heddle_json(answer, self.workflow, self.ignored))

    def _frame_of(self, choices: list[Json], **more: object) -> bytes:
        return _frame({**self._head(self.shape.value[1]), "choices": choices, **more})

    def _head(self, kind: str) -> Json:
        return {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self.model,
            "system_fingerprint": FINGERPRINT,
        }


def finish_reason(answer: Answer) -> str:
    """Return why a text ended, in OpenAI's words."""
    return "length" if answer.finish_reason is FinishReason.LENGTH else "stop"


def calls_json(calls: Sequence[ToolCall], *, is_stream: bool = False) -> Iterator[Json]:
    """Yield tool calls as OpenAI's replies have them; in a stream each has its index."""
    for index, call in enumerate(calls):
        yield {
            **({"index": index} if is_stream else {}),
            "id": f"call_{uuid.uuid4().hex}",
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }


def usage_json(receipt: Receipt) -> Json:
    """Return what was read and written for a request, in all its prompts.

    A text that a model reads to quote from it counts as prompt.
    """
    read = receipt.prompt_tokens + receipt.tokens_read
    return {
        "prompt_tokens": read,
        "completion_tokens": receipt.generated_tokens,
        "total_tokens": read + receipt.generated_tokens,
        "prompt_tokens_details": {"cached_tokens": receipt.prompt_tokens_reused},
    }


def _frame(value: Json) -> bytes:
    return b"data: " + encode_json(value) + b"\n\n"
