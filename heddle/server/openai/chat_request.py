"""The body of POST /v1/chat/completions, and the turns that it holds."""

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from heddle.app.chat.answer_form import AnswerForm
from heddle.app.chat.messages import FIELD, MESSAGES_MAX, chat_turn
from heddle.core.errors import InputError
from heddle.core.prompts.chat_turns import SYSTEM, USER, ChatTurn, ChatTurns
from heddle.server.openai.shared_request import SharedRequest
from heddle.workflow.writing import MAX_TOKENS_MAX


class ContentPart(BaseModel):
    """A part of a message."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    type: str
    text: str | None = None
    refusal: str | None = None


class ChatMessage(BaseModel):
    """A message; fields that no template reads are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[dict[str, Any]] | None = None

    def turn(self, number: int) -> ChatTurn:
        """Return the message as the chat template gets it; `number` is its place.

        Raises:
            InputError: it holds something else than text.
        """
        return chat_turn(self.model_dump(), number)


class ChatRequest(SharedRequest):
    """Turns of a conversation that is to go on."""

    messages: list[ChatMessage] = Field(
        min_length=1, max_length=MESSAGES_MAX, description="the turns, the oldest first"
    )
    max_completion_tokens: int | None = Field(
        default=None, ge=1, le=MAX_TOKENS_MAX, description="the same as max_tokens, and before it"
    )

    tools: list[dict[str, Any]] | None = Field(
        default=None, description="functions that the LLM may call, in OpenAI's form"
    )
    tool_choice: str | dict[str, Any] | None = Field(
        default=None,
        description='"none", "auto", "required", or the function to call; null = "auto"',
    )
    parallel_tool_calls: bool | None = Field(
        default=None, description="false = no more than one call"
    )
    response_format: dict[str, Any] | None = Field(
        default=None, description="the answer is of type text, json_object or json_schema"
    )

    @model_validator(mode="after")
    def _has_content(self) -> Self:
        for number, message in enumerate(self.messages):
            if message.content is None and not message.tool_calls:
                field = f"{FIELD}.{number}.content"
                raise InputError(f"{field} is missing", param=field)
        return self

    @property
    def tokens_wanted(self) -> int | None:
        """The most tokens of the answer; None = as the server or the workflow has it."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def form(self) -> AnswerForm:
        """The form that the answer is to have.

        Raises:
            InputError: a field of it can't be used.
        """
        is_parallel = self.parallel_tool_calls is not False
        return AnswerForm.of(
            self.tools, self.tool_choice, self.response_format, is_parallel=is_parallel
        )

    @property
    def turns(self) -> ChatTurns:
        """The conversation.

        Raises:
            InputError: a message holds something else than text.
        """
        return ChatTurns(tuple(one.turn(number) for number, one in enumerate(self.messages)))

    @property
    def question(self) -> str:
        """What the user said last.

        Raises:
            InputError: the user said nothing.
        """
        said = [turn.content for turn in self.turns.turns if turn.role == USER]
        if not said or not said[-1].strip():
            raise InputError(
                "messages: the last message of role user is the question, and there is none",
                param=FIELD,
            )
        return said[-1]

    @property
    def system(self) -> str:
        """What the messages of role system and developer say, one below the other."""
        said = (turn.content for turn in self.turns.turns if turn.role == SYSTEM)
        return "\n\n".join(text for text in said if text.strip())
