"""The body of POST /v1/ask."""

from typing import Any, ClassVar, Self

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, model_validator

from heddle.core.errors import InputError
from heddle.core.prompts.constraint import Constraint
from heddle.core.search_scope import where_of
from heddle.server.json_body import read_json
from heddle.server.request_fields import RequestFields
from heddle.workflow.writing import (
    MAX_TOKENS_MAX,
    PROMPT_CHARS_MAX,
    SEED_MAX,
    SYSTEM_CHARS_MAX,
    TEMPERATURE_MAX,
)


class AskConstraint(BaseModel):
    """What the answer has to be: exactly one of `json_schema`, `regex` and `choice`."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    json_schema: dict[str, Any] | bool | None = Field(
        default=None, description="JSON of this schema; true = any JSON"
    )
    regex: str | None = Field(
        default=None, description="a match of the whole pattern, without look-around"
    )
    choice: list[str] | None = Field(default=None, description="one of these texts")
    before: str = Field(default="", description="stands before the JSON, as it is")
    after: str = Field(default="", description="stands behind the JSON, as it is")

    @model_validator(mode="after")
    def _is_one_form(self) -> Self:
        given = [one for one in (self.json_schema, self.regex, self.choice) if one is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of json_schema, regex and choice")
        if self.json_schema is None and (self.before or self.after):
            raise ValueError("before and after go with json_schema alone")
        return self

    @property
    def checked(self) -> Constraint:
        """The form as `Server.submit` takes it.

        Raises:
            InputError: no text can be held to it.
        """
        if self.regex is not None:
            return Constraint.regex(self.regex)
        if self.choice is not None:
            return Constraint.choice(self.choice)
        return Constraint.json_schema(self.json_schema, before=self.before, after=self.after)


class AskRequest(RequestFields):
    """A question, and the options of its request. Unknown fields are refused."""

    other_names: ClassVar[dict[str, str]] = {"query": "question"}  # as a search calls it

    question: str | None = Field(default=None, description="value of the workflow's input `query`")
    workflow: str | None = Field(
        default=None,
        description="one of those that GET /v1/workflows names; null = quote, or oneshot where the "
        "server has a model that writes",
    )
    stream: bool = Field(default=False, description="answer with server-sent events")
    timeline: bool = Field(
        default=False,
        description="put `timeline` into the reply: stages, waits, and the critical path",
    )
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        le=MAX_TOKENS_MAX,
        description="most tokens of the answer; null = as the server does",
    )
    temperature: float | None = Field(
        default=None,
        ge=0,
        le=TEMPERATURE_MAX,
        description="sampling temperature of the answer; null = as the server does",
    )
    top_p: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="draw from the likeliest tokens that together have this probability; null = 1",
    )
    seed: int | None = Field(
        default=None, ge=0, le=SEED_MAX, description="equal seeds draw equal tokens; null = 0"
    )
    stop: str | list[str] | None = Field(
        default=None, description="a text, or several, before which the answer ends"
    )
    system: str | None = Field(
        default=None,
        min_length=1,
        max_length=SYSTEM_CHARS_MAX,
        description="text that says what the model is to be; null = as the server does",
    )
    prompt: str | None = Field(
        default=None,
        min_length=1,
        max_length=PROMPT_CHARS_MAX,
        description="template with {docs} and {input} in the place of the workflow's own; null = "
        "as the server does",
    )

    constraint: AskConstraint | None = Field(
        default=None,
        description="what the answer has to be, where a model writes it; null = any text",
    )

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if self.question is None and not self.inputs:
            raise InputError("question: give one, or inputs", param="question")
        if self.question is not None and not self.question.strip():
            raise InputError("question: is empty; ask something", param="question")
        return self

    @property
    def values(self) -> str | dict[str, object]:
        """What `Server.submit` takes as inputs."""
        if not self.inputs and self.question is not None:
            return self.question
        question = {} if self.question is None else {"query": self.question}
        return {**self.inputs, **question}

    @property
    def options(self) -> dict[str, Any]:
        """What `Server.submit` takes of these fields as keywords."""
        return {
            **super().options,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "seed": self.seed,
            "stop": self.stop,
            "system": self.system,
            "prompt": self.prompt,
            "constraint": None if self.constraint is None else self.constraint.checked,
        }


async def read_ask(request: Request) -> AskRequest:
    """Read and check a request's body, as a FastAPI dependency; raises as `read_json` does."""
    asked = await read_json(request, AskRequest)
    where_of(asked.where or {})  # its message names the key and its allowed values
    return asked
