"""The form of a chat's answer: words, JSON of a schema, or a call of one of the request's tools."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self

from heddle.app.chat.response_format import FIELD as FORMAT
from heddle.app.chat.response_format import format_constraint
from heddle.app.chat.tool_calls import constraint_of, render
from heddle.app.chat.tools import ToolChoice, ToolUse
from heddle.core.errors import InputError
from heddle.core.prompts.chat_turns import ChatTurn, ChatTurns
from heddle.core.prompts.constraint import FIELD as CONSTRAINT
from heddle.core.prompts.constraint import Constraint
from heddle.core.texts.text_check import check_unicode

TOOLS: Final = "tools"


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The form that a request wants its answer to have.

    Args:
        choice: the tools that the model may or must call.
        constraint: what the text has to be; None = any text.
        is_one_call: whether no more than one call is returned.
    """

    choice: ToolChoice
    constraint: Constraint | None = None
    is_one_call: bool = False

    @classmethod
    def of(
        cls,
        tools: Sequence[Mapping[str, Any]] | None,
        tool_choice: str | Mapping[str, Any] | None,
        response_format: Mapping[str, Any] | None,
        *,
        is_parallel: bool,
    ) -> Self:
        """Check a request's fields; `response_format` is of words, so a call that must be has none.

        Raises:
            InputError: one of them can't be used, or two of them together.
        """
        choice = ToolChoice.of(tools, tool_choice)
        with named(FORMAT):
            form = format_constraint(response_format)
        if choice.use is ToolUse.REQUIRED:
            with named(TOOLS):
                form = constraint_of(choice)
        elif choice.use is ToolUse.AUTO and form is not None:
            raise InputError(
                f"{FORMAT}: where the model may call tools, its words are free: send "
                'tool_choice "none" or "required", or leave one of the two out',
                param=FORMAT,
            )
        return cls(choice, form, not is_parallel)

    @property
    def may_call(self) -> bool:
        """Whether the answer may be a call."""
        return self.choice.use is not ToolUse.NONE

    @property
    def field(self) -> str:
        """The request's field that holds the answer to a form."""
        return TOOLS if self.may_call else FORMAT

    @property
    def options(self) -> dict[str, Constraint]:
        """The form as a keyword of `Server.submit`."""
        return {} if self.constraint is None else {CONSTRAINT: self.constraint}

    def check_without_call(self, model: str) -> None:
        """Refuse a call that must be made, for a model that answers with a workflow.

        Tools that it may call are no bar: a workflow answers in words. Chat interfaces offer
        theirs with every question.

        Raises:
            InputError: the model must call a tool.
        """
        if self.choice.use is ToolUse.REQUIRED:
            raise InputError(
                f"{TOOLS}: {model!r} is a workflow and calls none: name the LLM, or leave "
                "tool_choice out",
                param=TOOLS,
                code="unsupported_parameter",
            )

    @property
    def unused(self) -> tuple[str, ...]:
        """The request's fields that a workflow, which calls no tools, makes no use of."""
        return (TOOLS,) if self.choice.use is ToolUse.AUTO else ()

    def check_writer(self, model: str, *, writes: bool) -> None:
        """Refuse a form where no model writes the answer, as when it is quoted.

        Raises:
            InputError: nothing writes it, and a form is asked for.
        """
        if self.constraint is not None and not writes:
            raise InputError(
                f"{FORMAT}: no model writes the answer of {model!r}: leave it out, or name a "
                "workflow that ends in a generation",
                param=FORMAT,
                code="unsupported_parameter",
            )

    def shown(self, turns: ChatTurns) -> ChatTurns:
        """Return a conversation with its tools, calls and results as contents.

        A content is never read as a control token, so a tool's text isn't, either.

        Raises:
            InputError: a call holds text that isn't Unicode.
        """
        if not self.choice.tools:
            return turns
        messages = [
            {**turn.fields, "role": turn.role, "content": turn.content} for turn in turns.turns
        ]
        rendered = render(messages, self.choice)
        for message in rendered:
            check_unicode(message["content"], "messages")
        return ChatTurns(tuple(ChatTurn(one["role"], one["content"]) for one in rendered))


FREE: Final = AnswerForm(ToolChoice.of(None))


@contextmanager
def named(field: str) -> Iterator[None]:
    """Name the request's field in an error that is about its constraint.

    Raises:
        InputError: the one that came, with the field.
    """
    try:
        yield
    except InputError as error:
        if error.param != CONSTRAINT:
            raise
        raise InputError(f"{field}: {error}", param=field, code=error.code) from error
