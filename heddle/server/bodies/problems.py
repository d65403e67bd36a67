"""What is wrong with a body, in words that begin with the field."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError

from heddle.app.setting import did_you_mean
from heddle.core.errors import InputError

WHOLE: Final = "body"
BROKEN_TEXT: Final = {
    "hex escape": r"half of a character stands there, such as \ud800 alone: send whole ones",
    "unicode code point": "a text has bytes there that are not UTF-8: send it as UTF-8",
}
"""What words of the JSON parser mean for the texts of a body."""
PLAIN: Final = {
    "missing": "is missing",
    "string_type": "must be a text",
    "string_too_short": "must have at least {min_length:,} characters",
    "string_too_long": "must have at most {max_length:,} characters",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "greater_than": "must be above {gt:,}",
    "greater_than_equal": "must be at least {ge:,}",
    "less_than": "must be below {lt:,}",
    "less_than_equal": "must be at most {le:,}",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "list_type": "must be a list",
    "too_short": "must have at least {min_length:,} entries",
    "too_long": "must have at most {max_length:,} entries",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
}
"""What is wrong with a value, by pydantic's kind of problem; its facts are filled in."""


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


def plain_words(part: Mapping[str, Any]) -> str:
    """Return what is wrong with a value, as it stands behind the field's name.

    Args:
        part: one of the problems that pydantic lists. Of a kind that `PLAIN` doesn't know
            pydantic's own words are returned.
    """
    facts = {name: _shown(fact) for name, fact in part.get("ctx", {}).items()}
    is_list = part["type"] == "too_short" and facts["actual_length"] == 0
    if is_list or (part["type"] == "string_too_short" and facts["min_length"] == 1):
        return "is empty"
    return PLAIN[part["type"]].format(**facts) if part["type"] in PLAIN else str(part["msg"])


def _shown(fact: object) -> object:
    """Return a bound as a person writes it: pydantic has 0.0 for 0 where a field is a float."""
    return int(fact) if isinstance(fact, float) and fact.is_integer() else fact


def _problem(part: Mapping[str, Any], kind: type[BaseModel]) -> InputError:
    field = ".".join(map(str, part["loc"]))
    own = part.get("ctx", {}).get("error")
    if isinstance(own, InputError) and own.param:
        return own
    words = plain_words(part) if own is None else str(own)
    if part["type"] == "json_invalid":
        words += "".join(f": {fix}" for known, fix in BROKEN_TEXT.items() if known in words)
    if part["type"] == "extra_forbidden":
        words = "there is no such field"
        *path, last = part["loc"]
        if (holder := _kind_at(kind, path)) is not None:
            words = f"{words}; {_meant(last, holder)}"
    return InputError(f"{field or WHOLE}: {words}", param=field)


def _kind_at(kind: type[BaseModel], path: Iterable[str | int]) -> type[BaseModel] | None:
    """Return the model of what stands at a path of fields and entries; None = not one alone."""
    for field in path:
        if isinstance(field, str):
            known = kind.model_fields.get(field)
            found = [] if known is None else list(_models(known.annotation))
            if len(found) != 1:
                return None
            [kind] = found
    return kind


def _models(annotation: Any) -> Iterator[type[BaseModel]]:  # noqa: ANN401 - typing's own
    """Yield the models that a type is made of, as in list[Model] | None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _meant(field: str, kind: type[BaseModel]) -> str:
    other: str | None = getattr(kind, "other_names", {}).get(field)
    return f"send {other}" if other else did_you_mean(field, tuple(kind.model_fields))
