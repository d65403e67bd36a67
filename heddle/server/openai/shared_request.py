"""What the bodies of chats and completions have in common."""

from collections.abc import Collection
from typing import Any, Self, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, model_validator

from heddle.core.errors import InputError
from heddle.core.search_scope import where_of
from heddle.server.json_body import OpenBody, read_open
from heddle.server.keys.access import own_tenant
from heddle.server.openai.fields import undefined
from heddle.server.request_fields import RequestFields
from heddle.workflow.writing import MAX_TOKENS_MAX, SEED_MAX, TEMPERATURE_MAX

MODEL_CHARS_MAX = 512


class HeddleFields(RequestFields):
    """Heddle's own options of a request, which clients send in `extra_body`."""

    inline_sources: bool | None = Field(
        default=None,
        description="end the text with its sources in Markdown; null = as the server does",
    )


class StreamOptions(BaseModel):
    """What a stream has besides the text."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    include_usage: bool | None = Field(
        default=None, description="end the stream with a chunk that counts the tokens"
    )


class SharedRequest(OpenBody):
    """A request to write. A field of OpenAI's that would change the answer is refused by name."""

    model: str = Field(
        max_length=MODEL_CHARS_MAX,
        description='"corpus", "workflow:NAME", or the name of the LLM; GET /v1/models names them',
    )
    stream: bool | None = Field(default=None, description="answer with server-sent events")
    stream_options: StreamOptions | None = Field(default=None, description="for a stream")
    max_tokens: int | None = Field(
        default=None, ge=1, le=MAX_TOKENS_MAX, description="most tokens of the answer"
    )
    temperature: float | None = Field(
        default=None,
        ge=0,
        le=TEMPERATURE_MAX,
        description="sampling temperature; null = as the server does",
    )
    top_p: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="draw from the likeliest tokens that together have this probability; null = 1",
    )
    seed: int | None = Field(
        default=None,
        ge=-SEED_MAX - 1,
        le=SEED_MAX,
        description="equal seeds draw equal tokens; null = another one each time",
    )
    stop: str | list[str] | None = Field(
        default=None, description="a text, or several, before which the answer ends"
    )
    heddle: HeddleFields = Field(
        default_factory=HeddleFields, description="Heddle's own options: an object"
    )

    @model_validator(mode="after")
    def _has_no_options_without_stream(self) -> Self:
        if self.stream_options is not None and not self.stream:
            raise InputError(
                "stream_options: only a stream has them: send stream=true", param="stream_options"
            )
        return self

    def unknown_fields(self) -> Collection[str]:
        """Return the names of the fields that OpenAI doesn't define.

        Raises:
            InputError: a field of OpenAI's would change the answer, and isn't done.
        """
        return undefined(self.model_extra or {})

    @property
    def has_usage_chunk(self) -> bool:
        """Whether the stream ends with a chunk that counts the tokens."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def tokens_wanted(self) -> int | None:
        """The most tokens of the answer; None = as the server or the workflow has it."""
        return self.max_tokens

    @property
    def writing(self) -> dict[str, Any]:
        """What was asked of how the answer is written, as keywords of `Server.submit`."""
        asked = {
            "max_tokens": self.tokens_wanted,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "seed": None if self.seed is None else self.seed & SEED_MAX,
            "stop": self.stop or None,
        }
        return {name: value for name, value in asked.items() if value is not None}


R = TypeVar("R", bound=SharedRequest)


async def read_shared(request: Request, kind: type[R]) -> R:
    """Read and check a body; its tenant is the one of the request's key, if it has one.

    Raises:
        HTTPException, InputError, Cancelled: as `read_open`.
    """
    asked = await read_open(request, kind)
    where_of(asked.heddle.where or {})  # its message names the key and its allowed values
    tenant = own_tenant(request.scope, asked.heddle.tenant)
    return asked.model_copy(update={"heddle": asked.heddle.model_copy(update={"tenant": tenant})})
