"""Signatures and types as short text: without modules, and with the names that users import."""

import inspect
import typing
from collections.abc import Callable
from types import GenericAlias, UnionType
from typing import Any, Final, Literal, Unpack, get_args, get_origin

from heddle.runtime.events import RequestEvent

NAMED: Final = {RequestEvent: "RequestEvent"}


def signature_text(of: Callable[..., Any] | type) -> str:
    """Return a signature such as "(self, texts: Sequence[str]) -> Vectors"."""
    signature = inspect.signature(of)
    parts = []
    is_keyword_only = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword_only:
            is_keyword_only = True
            parts.append("*")
        parts.append(_parameter(parameter))
    result = signature.return_annotation
    after = "" if result is inspect.Signature.empty else f" -> {type_text(result)}"
    return f"({', '.join(parts)}){after}"


def type_text(annotation: object) -> str:
    """Return a type as it is written in code, without modules."""
    if annotation in NAMED:
        return NAMED[annotation]
    if isinstance(annotation, str):
        return annotation
    if annotation in (None, type(None)):
        return "None"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Unpack:
        return f"Unpack[{type_text(arguments[0])}]"
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if origin in (UnionType, typing.Union):
        return " | ".join(map(type_text, arguments))
    if isinstance(annotation, GenericAlias) or arguments:
        inside = ", ".join(
            f"[{', '.join(map(type_text, one))}]" if isinstance(one, list) else type_text(one)
            for one in arguments
        )
        return f"{type_text(origin)}[{inside}]"
    if annotation is Ellipsis:
        return "..."
    return str(getattr(annotation, "__name__", annotation))


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = f"{stars}{parameter.name}"
    if parameter.annotation is not parameter.empty:
        text += f": {type_text(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        text += f" = {_default(parameter.default)}"
    return text


def _default(value: object) -> str:
    if callable(value) and not isinstance(value, type):
        return "..."
    name = getattr(value, "name", None)
    return f"{type(value).__name__}.{name}" if isinstance(name, str) else repr(value)
