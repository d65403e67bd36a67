"""What a caller hands to `submit`, checked before anything is started."""

from collections.abc import Mapping
from enum import Enum
from numbers import Real
from typing import TypeVar

from heddle.core.errors import ConfigError, InputError
from heddle.core.texts.text_check import check_unicode
from heddle.runtime.admission import check_input_text
from heddle.workflow.template import DOCUMENTS

E = TypeVar("E", bound=Enum)


def input_values(inputs: object, chars_max: int) -> dict[str, object]:
    """Return the value of every input slot; `input` is another name of `query`.

    Args:
        inputs: the question, or a mapping. A message calls the former `question`, the values of
            the latter by their slots.
        chars_max: the most characters of a question.

    Raises:
        InputError: it is neither a question nor a mapping, or a text in it can't be used.
    """
    values: dict[str, object] = {}
    if isinstance(inputs, str):
        check_unicode(inputs, "question")
        check_input_text(inputs, "question", chars_max)
        values["query"] = inputs
    elif isinstance(inputs, Mapping) and all(isinstance(slot, str) for slot in inputs):
        values.update(inputs)
    else:
        raise InputError(
            f"inputs: give the question as a string, or a dict of inputs by name; got {_of(inputs)}"
        )
    if DOCUMENTS in values:
        raise InputError("inputs: documents are no input: give them as the option `documents`")
    if "input" in values and "query" not in values:
        values["query"] = values.pop("input")
    if not isinstance(values.get("query", ""), str):
        raise InputError(f"query must be a string, got {_of(values['query'])}")
    for slot, value in values.items():
        if isinstance(value, str):
            check_unicode(value, slot)
    return values


def tenant_name(tenant: object) -> str:
    """Return a tenant as it is.

    Raises:
        InputError: it is no valid string.
    """
    if not isinstance(tenant, str):
        raise InputError(f"tenant must be a string, got {_of(tenant)}")
    check_unicode(tenant, "tenant")
    return tenant


def patience_s(deadline_s: object) -> float | None:
    """Return the time until the answer is worthless [s]; None = as the server has it.

    Raises:
        InputError: it is no number.
    """
    if deadline_s is None:
        return None
    if isinstance(deadline_s, bool) or not isinstance(deadline_s, Real):
        raise InputError(f"deadline_s must be a number of seconds, got {_of(deadline_s)}")
    return float(deadline_s)


def member_named(kind: type[E], value: E | str, field: str) -> E:
    """Return the member of an enum, given as itself or by its name.

    Raises:
        ConfigError: there is no such member.
    """
    if isinstance(value, kind):
        return value
    by_name = {member.name.lower(): member for member in kind}
    if str(value).lower() not in by_name:
        raise ConfigError(f"{field} must be one of {', '.join(by_name)}, got {value!r}")
    return by_name[str(value).lower()]


def _of(value: object) -> str:
    """Describe a value of a wrong type, however large it is."""
    text = repr(value)
    return f"{text if len(text) <= 40 else text[:40] + '...'} ({type(value).__name__})"
