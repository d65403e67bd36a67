"""docs/reference/python.md: what `heddle` exports, with signatures and docstrings."""

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from types import FunctionType
from typing import Any, Final, get_type_hints, is_typeddict

import heddle
from tools.reference.docstrings import markdown, parse
from tools.reference.signatures import signature_text, type_text
from tools.reference.tables import table

HEAD = """\
# Python

Everything here is imported from `heddle`. Type checkers know every keyword. The fields of
`ServerConfig`, which are the keywords of `Server`, stand in [config.md](config.md); those of
`Receipt` in [receipt.md](receipt.md).

A test runs the examples on the notes of [examples/](../../examples/README.md). `corpus` is their
index, `server` is `Server("reader", "corpus")`, and a comment is what an example prints there.
"""
ERRORS: Final = "Errors"
GROUPS: Final = {
    "Server": ("Server", "ServerConfig", "ServerSettings", "App", "Handle"),
    "Workflows": (
        "as_workflow",
        "wrap",
        "WorkflowFunction",
        "Calls",
        "Deferred",
        "RAGraph",
        "Workflow",
        "START",
        "END",
    ),
    "Passes and engines of your own": ("GraphPass", "CyclePass", "OwnEngine", "Extensions"),
    "Requests": (
        "RequestOptions",
        "SearchOptions",
        "EmbeddingOptions",
        "Priority",
        "Optimizations",
        "Constraint",
        "ConstraintKind",
        "KvReuse",
        "ReusePolicy",
        "QuestionPass",
        "PrimedWith",
        "LongTexts",
        "TextRole",
        "LostShard",
        "PoolPolicy",
    ),
    "Results": (
        "Answer",
        "Passage",
        "SearchResult",
        "Receipt",
        "Vectors",
        "DocumentChange",
        "PrimingPlan",
        "PrimingProgress",
        "PrimingReport",
    ),
    "Events": (
        "RequestEvent",
        "NodeStarted",
        "Retrieved",
        "TokenDelta",
        "NodeFinished",
        "RequestFailed",
    ),
}
WITHOUT_FIELDS: Final = ("ServerConfig", "ServerSettings", "Receipt")


def python_page() -> Iterator[str]:
    """Yield the lines of the page."""
    yield from HEAD.splitlines()
    yield ""
    grouped = {name for names in GROUPS.values() for name in names}
    errors = [
        name
        for name in heddle.__all__
        if isinstance(getattr(heddle, name), type) and issubclass(getattr(heddle, name), Exception)
    ]
    left = set(heddle.__all__) - grouped - set(errors) - {"__version__"}
    assert not left, f"give these exports a group: {sorted(left)}"
    for group, names in GROUPS.items():
        yield f"## {group}"
        yield ""
        for name in names:
            yield from _export(name, getattr(heddle, name))
    yield f"## {ERRORS}"
    yield ""
    yield from table(
        ("error", "is a", "meaning"),
        (
            (f"`{name}`", f"`{getattr(heddle, name).__base__.__name__}`", _summary(name))
            for name in errors
        ),
    )


def _export(name: str, exported: object) -> Iterator[str]:
    yield f"### {name}"
    yield ""
    if isinstance(exported, FunctionType):
        yield from _function(name, exported)
        return
    if not isinstance(exported, type):
        yield from _value(name, exported)
        return
    if is_typeddict(exported):
        yield from markdown(exported.__doc__)
        yield ""
        if name not in WITHOUT_FIELDS:
            hints = get_type_hints(exported)
            rows = ((f"`{key}`", f"`{type_text(hint)}`") for key, hint in hints.items())
            yield from table(("keyword", "type"), rows)
        return
    if issubclass(exported, Enum):
        yield from markdown(exported.__doc__)
        yield ""
        values = (f"`{name}.{member.name}` = `{member.value!r}`" for member in exported)
        yield f"{', '.join(values)}."
        yield ""
        return
    if not dataclasses.is_dataclass(exported):
        yield from _code(f"{name}{signature_text(exported)}")
    yield from markdown(exported.__doc__)
    yield ""
    if dataclasses.is_dataclass(exported) and name not in WITHOUT_FIELDS:
        yield from _fields(exported)
    for method, function in _methods(exported):
        yield from _method(name, method, function)


def _value(name: str, exported: object) -> Iterator[str]:
    if name == "RequestEvent":
        yield f"One of {', '.join(f'`{one.__name__}`' for one in exported.__args__)}."  # type: ignore[attr-defined]
    else:
        yield f"The {'first' if name == 'START' else 'last'} node of a graph, for `add_edge`."
    yield ""


def _fields(exported: type) -> Iterator[str]:
    hints = get_type_hints(exported)
    meanings = parse(exported.__doc__).entries("Args")
    rows = (
        (f"`{one.name}`", f"`{type_text(hints[one.name])}`", meanings.get(one.name, ""))
        for one in dataclasses.fields(exported)
        if not one.name.startswith("_")
    )
    if meanings:
        yield from table(("field", "type", "meaning"), rows)
    else:
        yield from table(("field", "type"), (row[:2] for row in rows))


def _methods(exported: type) -> Iterator[tuple[str, Any]]:
    for name, member in vars(exported).items():
        if not name.startswith("_") and isinstance(
            member, FunctionType | classmethod | staticmethod | property
        ):
            yield name, member


def _method(owner: str, name: str, member: object) -> Iterator[str]:
    if isinstance(member, property):
        kind = get_type_hints(member.fget).get("return")
        yield f"#### {owner}.{name}"
        yield ""
        yield from _code(f"{name}: {type_text(kind)}")
        yield from markdown(member.__doc__)
    else:
        yield f"#### {owner}.{name}"
        yield ""
        function: Callable[..., object] = getattr(member, "__func__", member)  # type: ignore[assignment]
        yield from _function(name, function)
        return
    yield ""


def _function(name: str, function: Callable[..., object]) -> Iterator[str]:
    prefix = "async " if inspect.iscoroutinefunction(function) else ""
    yield from _code(f"{prefix}{name}{signature_text(function)}")
    yield from markdown(function.__doc__)
    yield ""


def _code(text: str) -> Iterator[str]:
    yield from ("```python", *_wrapped(text), "```", "")


def _wrapped(signature: str) -> list[str]:
    """Put each parameter of a long signature on a line of its own."""
    if len(signature) <= 88:
        return [signature]
    head, _, rest = signature.partition("(")
    parts, depth, part = [], 0, ""
    for at, letter in enumerate(rest):
        depth += (letter in "([{") - (letter in ")]}")
        if depth < 0:
            return [
                f"{head}(",
                *(f"    {one}," for one in [*parts, part.strip()] if one),
                rest[at:],
            ]
        if letter == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += letter
    return [signature]


def _summary(name: str) -> str:
    return " ".join(parse(getattr(heddle, name).__doc__).text).strip()
