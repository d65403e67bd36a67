"""The two ways to ask for text: as a chat, or as a text to go on with."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from heddle.core.payloads import Sampling
from heddle.core.prompts.chat_turns import SYSTEM, USER, ChatTurn
from heddle.core.prompts.constraint import Constraint, ConstraintKind
from heddle.core.tasks import Priority


class Dialect(Enum):
    """The call that answers; its value is the call's path."""

    CHAT = "/chat/completions"
    COMPLETIONS = "/completions"


MAX_TOKENS: Final = "max_tokens"
RESPONSE_FORMAT: Final = "response_format"
TOOL_CALLS: Final = "tool_calls"
MAX_COMPLETION_TOKENS: Final = "max_completion_tokens"
# What a request can do without: no answer depends on it, or the receipt says so.
EXTRAS: Final = frozenset({"stream_options", "seed", "top_k", "priority", "cache_salt"})
OPTIONAL: Final = EXTRAS | {"temperature", "top_p", "ignore_eos"}
UNTOLD: Final = frozenset({"stream_options"})  # leaving it out costs a count of tokens
# Servers that report themselves as owner of their models, and take more than OpenAI's fields.
VLLM: Final = "vllm"
LLAMA_CPP: Final = "llamacpp"
TAKES_TOP_K: Final = frozenset({VLLM, LLAMA_CPP})


@dataclass(slots=True)
class Abilities:
    """What one server can do, as far as it is known.

    Args:
        model: the model's name there.
        dialect: how it is asked.
        owner: who runs it, in its own word: vllm, llamacpp, library (Ollama), or another.
        context_tokens_max: of the model; None = it doesn't say.
        lacks: fields of a request that it has refused.

    Mutates: `lacks` grows when a request without a field succeeds where it failed with it.
    """

    model: str
    dialect: Dialect = Dialect.CHAT
    owner: str = ""
    context_tokens_max: int | None = None
    lacks: set[str] = field(default_factory=set)

    @property
    def separates_tenants(self) -> bool:
        """Whether prefix caches are kept apart by tenant."""
        return self.owner == VLLM and "cache_salt" not in self.lacks


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a generation is asked: the text, and who asks.

    Args:
        text: the whole prompt.
        system: what stands before it in a chat; empty = nothing.
        tenant: whose it is; empty = everybody's.
        priority: the request's.
        turns: a conversation, which is asked in the place of the text; () = there is none.
        is_bare: whether the text is to be gone on with, without a chat around it.
    """

    text: str
    system: str = ""
    tenant: str = ""
    priority: Priority = Priority.NORMAL
    turns: tuple[ChatTurn, ...] = ()
    is_bare: bool = False

    @property
    def messages(self) -> list[dict[str, object]]:
        """The prompt as a chat's messages."""
        turns = self.turns or (ChatTurn(USER, self.text),)
        if self.system and turns[0].role != SYSTEM:
            turns = (ChatTurn(SYSTEM, self.system), *turns)
        return [_message(turn) for turn in turns]

    def misfit(self, dialect: Dialect) -> str:
        """Return why a server of this dialect can't be asked for it; "" = it can."""
        if self.turns and dialect is not Dialect.CHAT:
            return "goes on with a text, and takes no conversation: ask it with one text"
        if self.is_bare and dialect is Dialect.CHAT:
            return "answers chats, and goes on with no text: send it messages"
        return ""


def _message(turn: ChatTurn) -> dict[str, object]:
    message = {**turn.fields, "role": turn.role, "content": turn.content}
    calls = turn.fields.get(TOOL_CALLS)
    if isinstance(calls, list):
        message[TOOL_CALLS] = [_call(one) for one in calls]
    return message


def _call(call: object) -> object:
    """Return a tool call with its arguments as text, as the API has them: a turn has an object."""
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping):
        return call
    arguments = function.get("arguments")
    if not isinstance(arguments, Mapping):
        return call
    return {**call, "function": {**function, "arguments": json.dumps(arguments)}}


def request_body(
    prompt: Prompt,
    sampling: Sampling,
    server: Abilities,
    left_out: frozenset[str] = frozenset(),
) -> dict[str, object]:
    """Return the body of a request that streams an answer, without the fields that are left out."""
    lacks = server.lacks | left_out
    body: dict[str, object] = {"model": server.model, "stream": True}
    if server.dialect is Dialect.CHAT:
        body["messages"] = prompt.messages
    else:
        has_system = prompt.system and not prompt.is_bare
        body["prompt"] = f"{prompt.system}\n\n{prompt.text}" if has_system else prompt.text
    limit = MAX_COMPLETION_TOKENS if MAX_TOKENS in lacks else MAX_TOKENS
    body[limit] = sampling.max_tokens
    body["temperature"] = sampling.temperature
    if sampling.top_p != 1.0:
        body["top_p"] = sampling.top_p
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    body["seed"] = sampling.seed % (1 << 63)  # what a JSON reader with signed integers takes
    body["stream_options"] = {"include_usage": True}
    if sampling.constraint is not None:
        body.update(_constrained(sampling.constraint))
    body.update(_beyond_openai(prompt, sampling, server))
    return {name: value for name, value in body.items() if name not in lacks}


def constraint_refusal(constraint: Constraint, server: Abilities) -> str:
    """Return why a server can't be asked for a text of this form; empty where it can."""
    if constraint.before or constraint.after:
        return "constraint: another server's model can't be held to JSON within other text"
    if constraint.kind is not ConstraintKind.JSON_SCHEMA:
        if server.owner == VLLM:
            return ""
        kind = constraint.kind.value
        return f"constraint: a {kind} goes only to a server of vLLM; use json_schema there"
    if server.dialect is not Dialect.CHAT:
        return (
            f"constraint: the server answers {server.dialect.value} alone, which takes no "
            "response_format: use one with /chat/completions"
        )
    return ""


def _constrained(constraint: Constraint) -> dict[str, object]:
    """Return the fields that ask for a text of this form: OpenAI's, or for the others vLLM's."""
    if constraint.kind is ConstraintKind.JSON_SCHEMA:
        schema = {"name": "answer", "schema": constraint.value, "strict": True}
        return {RESPONSE_FORMAT: {"type": "json_schema", "json_schema": schema}}
    return {"structured_outputs": {constraint.kind.value: constraint.value}}


def notes_of(prompt: Prompt, sampling: Sampling, server: Abilities) -> tuple[str, ...]:
    """Return in words where a server does not follow the request."""
    notes = []
    if sampling.top_k and (server.owner not in TAKES_TOP_K or "top_k" in server.lacks):
        notes.append("the server takes no top_k: all tokens could be drawn")
    if sampling.ignore_eos and server.owner != VLLM:
        notes.append("the server takes no ignore_eos: answers end where the model ends them")
    if prompt.tenant and not server.separates_tenants:
        notes.append("the server may share its prefix cache between tenants")
    told = sorted(server.lacks & OPTIONAL - UNTOLD - {"top_k", "cache_salt"})
    if told:
        notes.append(f"the server doesn't take {', '.join(told)}: its own defaults hold")
    return tuple(notes)


def without(body: Mapping[str, object], named: str) -> frozenset[str]:
    """Return the fields to leave out after a refusal; empty where nothing is left to try.

    Args:
        body: what was refused.
        named: the field that the server named; empty = none.
    """
    if named == MAX_TOKENS and MAX_TOKENS in body:
        return frozenset({MAX_TOKENS})
    if named in OPTIONAL and named in body:
        return frozenset({named})
    return EXTRAS & body.keys()


def _beyond_openai(prompt: Prompt, sampling: Sampling, server: Abilities) -> dict[str, object]:
    """Return the fields that only some servers know; others may refuse a request for them."""
    more: dict[str, object] = {}
    if sampling.top_k and server.owner in TAKES_TOP_K:
        more["top_k"] = sampling.top_k
    if server.owner == VLLM:
        if sampling.ignore_eos:
            more["ignore_eos"] = True
        if prompt.tenant:
            more["cache_salt"] = prompt.tenant
        # A value other than 0 is refused by servers that don't schedule by priority.
        if prompt.priority is not Priority.NORMAL:
            more["priority"] = int(prompt.priority) - int(Priority.NORMAL)
    return more
