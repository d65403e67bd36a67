"""Fields of OpenAI's requests that Heddle doesn't read: which are refused, and which ignored.

A field that OpenAI defines and that would change the answer is refused by its name, unless its
value asks for nothing. A field that OpenAI defines and that changes no answer is ignored. So is one
that OpenAI doesn't define, with one line in the log for each name.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from heddle.core.errors import InputError

_NONE: Final[tuple[object, ...]] = ()
_ZERO: Final = (0,)
_NO: Final = (False,)

# By name: the values that ask for nothing, beside null and what is empty; why others are refused.
REFUSED: Final[Mapping[str, tuple[Sequence[object], str]]] = {
    "n": ((1,), "one answer is written for a request: send it several times"),
    "best_of": ((0, 1), "one answer is written for a request"),
    "frequency_penalty": (_ZERO, "tokens are drawn without penalties: leave it out"),
    "presence_penalty": (_ZERO, "tokens are drawn without penalties: leave it out"),
    "logit_bias": (_NONE, "no token can be made likelier: leave it out"),
    # Of a completion 0 asks for the probability of each token that is drawn.
    "logprobs": (_NO, "probabilities of tokens are not returned: leave it out"),
    "top_logprobs": (_ZERO, "probabilities of tokens are not returned: leave it out"),
    "echo": (_NO, "the prompt is not repeated in the answer: leave it out"),
    "suffix": (_NONE, "no text is written in front of another: leave it out"),
    "audio": (_NONE, "answers are texts: leave it out"),
    "modalities": ((["text"],), 'answers are texts: leave it out, or send ["text"]'),
    "reasoning_effort": (("none",), "how long a model reasons can't be set: leave it out"),
    "verbosity": (("medium",), "the length is set by max_completion_tokens: leave it out"),
    "web_search_options": (_NONE, "no search on the web is made: leave it out"),
    "functions": (_NONE, "newer than this field is `tools`: send that"),
    "function_call": (("none", "auto"), "newer than this field is `tool_choice`: send that"),
    # A chat reads the next three itself.
    "tools": (_NONE, "only a chat has tools: ask /v1/chat/completions"),
    "tool_choice": (("none", "auto"), "only a chat has tools: ask /v1/chat/completions"),
    "response_format": (
        ({"type": "text"},),
        "only a chat's answer has a form: ask /v1/chat/completions",
    ),
}
HARMLESS: Final = frozenset(
    {
        "metadata",
        "moderation",
        "parallel_tool_calls",
        "prediction",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
    }
)


def undefined(others: Mapping[str, object]) -> list[str]:
    """Return the names of the fields that OpenAI doesn't define.

    Args:
        others: the fields of a request that Heddle doesn't read.

    Raises:
        InputError: one of them would change the answer; the message names it.
    """
    for name, value in others.items():
        if name in REFUSED:
            _check_asks_nothing(name, value)
    return [name for name in others if name not in REFUSED and name not in HARMLESS]


def _check_asks_nothing(name: str, value: object) -> None:
    neutral, why = REFUSED[name]
    if value is None or value in ("", [], {}) or any(_is_same(value, one) for one in neutral):
        return
    raise InputError(f"{name}: {why}", param=name, code="unsupported_parameter")


def _is_same(value: object, other: object) -> bool:
    """Whether two JSON values are the same; 0 and false are not, though Python calls them equal."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)
