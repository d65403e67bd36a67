"""What a node of a graph holds: models, retrievers and prompts, however deep they lie."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from langchain_core.documents.compressor import BaseDocumentCompressor
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseLanguageModel
from langchain_core.prompts import BasePromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable
from langchain_core.vectorstores import VectorStore
from langgraph.pregel import Pregel

STEPS_MAX: Final = 8  # from a node to an object within
OBJECTS_MAX: Final = 5_000
ITEMS_MAX: Final = 100  # of a list or dict
LEAVES: Final = (
    BaseLanguageModel,
    BasePromptTemplate,
    BaseDocumentCompressor,
    Embeddings,
    VectorStore,
    Pregel,
)
CONTAINERS: Final = (list, tuple, set, frozenset, deque)


@dataclass(slots=True)
class Contents:
    """What was found, each with the name by which it is held."""

    found: list[tuple[str, Any]] = field(default_factory=list)
    is_cut: bool = False

    def of(self, *kinds: type) -> list[tuple[str, Any]]:
        """Return those of some classes."""
        return [(name, one) for name, one in self.found if isinstance(one, kinds)]


def contents_of(*held: object) -> Contents:
    """Return what a node's function or runnable holds.

    Looked through are runnables and their parts, functions with their closures, defaults and the
    globals that their code names, bound methods, partial functions, objects, lists and dicts.
    """
    contents, seen = Contents(), set[int]()
    waiting = deque(("", one, 0) for one in held)
    while waiting:
        name, one, steps = waiting.popleft()
        if id(one) in seen or _is_plain(one):
            continue
        if steps > STEPS_MAX or len(seen) >= OBJECTS_MAX:
            contents.is_cut = True
            continue
        seen.add(id(one))
        if isinstance(one, (*LEAVES, BaseRetriever)):
            contents.found.append((name or type(one).__name__, one))
        if not isinstance(one, LEAVES):
            waiting.extend((part or name, value, steps + 1) for part, value in _parts(one))
    return contents


def _is_plain(one: object) -> bool:
    return one is None or isinstance(one, str | bytes | int | float | complex | type | ModuleType)


def _parts(one: object) -> Iterator[tuple[str, object]]:
    """Yield what an object holds, by name."""
    if isinstance(one, FunctionType):
        yield from _of_function(one)
    elif isinstance(one, MethodType):
        yield "", one.__func__
        yield from _attributes(one.__self__, one.__func__)
    elif isinstance(one, partial):
        yield from (("", part) for part in (one.func, *one.args, *one.keywords.values()))
    elif isinstance(one, CONTAINERS):
        yield from (("", part) for part in list(one)[:ITEMS_MAX])
    elif isinstance(one, dict):
        yield from ((str(key), part) for key, part in list(one.items())[:ITEMS_MAX])
    elif isinstance(one, Runnable | BaseRetriever):
        yield from _fields(one)
    elif callable(one):
        call = vars(type(one)).get("__call__")
        if isinstance(call, FunctionType):
            yield "", call
        yield from _fields(one)


def _of_function(function: FunctionType) -> Iterator[tuple[str, object]]:
    names = set(_names(function.__code__))
    yield from _named({**dict(_nonlocals(function)), **_globals(function, names)}, function)
    for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield "", default
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None:
        yield "", wrapped


def _named(
    values: dict[str, object], function: Callable[..., object]
) -> Iterator[tuple[str, object]]:
    """Yield values that a function's code names, and of objects those attributes that it names."""
    for name, value in values.items():
        yield name, value
        if not isinstance(value, (FunctionType, Runnable, BaseRetriever, *LEAVES)):
            yield from _attributes(value, function)


def _attributes(owner: object, function: Callable[..., object]) -> Iterator[tuple[str, object]]:
    """Yield the attributes of an object or a module that a function's code names."""
    code = getattr(function, "__code__", None)
    own = getattr(owner, "__dict__", None)
    if code is None or not isinstance(own, dict):
        return
    for name in set(_names(code)) & own.keys():
        yield name, own[name]
    for name in _names(code):
        method = getattr(type(owner), name, None)  # a helper method that the code calls
        if isinstance(method, FunctionType) and not isinstance(owner, ModuleType):
            yield "", MethodType(method, owner)


def _nonlocals(function: FunctionType) -> Iterator[tuple[str, object]]:
    """Yield the variables of a function's closure that have a value already."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):
            yield name, cell.cell_contents


def _globals(function: FunctionType, names: set[str]) -> dict[str, object]:
    return {name: function.__globals__[name] for name in names & function.__globals__.keys()}


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names that a function's code, and that of functions within it, refers to."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _fields(owner: object) -> Iterator[tuple[str, object]]:
    own = getattr(owner, "__dict__", None) or {}
    slots = (name for kind in type(owner).__mro__ for name in getattr(kind, "__slots__", ()))
    for name, value in {**own, **{n: getattr(owner, n, None) for n in slots}}.items():
        if name not in ("callbacks", "config", "metadata", "tags"):
            yield name, value
