"""What is wrong with a body, in words that begin with the field."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from heddle.app.setting import did_you_mean
from heddle.core.errors import InputError

WHOLE: Final = "body"
BROKEN_TEXT: Final = {
    "hex escape": r"half of a character stands there, such as \ud800 alone: send whole ones",
    "unicode code point": "a text has bytes there that are not UTF-8: send it as UTF-8",
}
"""What words of the JSON parser mean for the texts of a body."""


def problem_of(error: ValidationError, kind: type[BaseModel]) -> InputError:
    """Return all problems of a body as one error; its field is that of the first.

    Args:
        error: pydantic's. A check of ours that is about several fields raises an InputError that
            names its field itself.
        kind: what the body should have been.
    """
    found = [_problem(part, kind) for part in error.errors(include_url=False, include_input=False)]
    first = found[0]
    return InputError("; ".join(map(str, found)), param=first.param, code=first.code)


def _problem(part: Mapping[str, Any], kind: type[BaseModel]) -> InputError:
    field = ".".join(map(str, part["loc"]))
    own = part.get("ctx", {}).get("error")
    if isinstance(own, InputError) and own.param:
        return own
    words = part["msg"] if own is None else str(own)
    if part["type"] == "json_invalid":
        words += "".join(f": {fix}" for known, fix in BROKEN_TEXT.items() if known in words)
    if part["type"] == "too_short" and part["ctx"]["actual_length"] == 0:
        words = "is empty"
    if part["type"] == "extra_forbidden":
        words = "there is no such field"
        if len(part["loc"]) == 1:
            words = f"{words}; {_meant(field, kind)}"
    return InputError(f"{field or WHOLE}: {words}", param=field)


def _meant(field: str, kind: type[BaseModel]) -> str:
    other: str | None = getattr(kind, "other_names", {}).get(field)
    return f"send {other}" if other else did_you_mean(field, tuple(kind.model_fields))
