"""A module's reference as Markdown: its docstring, then its functions and classes by name."""

import importlib
import inspect
import warnings
from collections.abc import Iterator
from types import ModuleType

from heddle.evals.manuals.page import ManualPage, without_addresses, without_headings


def reference_page(name: str) -> ManualPage | None:
    """Return the page of a module, made of what `help()` shows; None where it isn't installed.

    What has no docstring is left out. A class has its own methods, not those it inherits.
    """
    module = _module(name)
    if module is None:
        return None
    parts = [f"# {name}", _docstring(module)]
    for title, thing in _documented(module):
        parts += [f"## {name}.{title}", *_described(title, thing)]
        if inspect.isclass(thing):
            for method, function in _methods(thing):
                parts += [f"### {name}.{title}.{method}", *_described(method, function)]
    return ManualPage(f"{name}.md", "\n\n".join(part for part in parts if part) + "\n")


def _module(name: str) -> ModuleType | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a deprecated module warns when it is imported
        try:
            return importlib.import_module(name)
        except ImportError:
            return None


def _documented(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield the public functions and classes of a module that have a docstring, by name."""
    listed = getattr(module, "__all__", None)
    for name in sorted(listed if listed is not None else vars(module)):
        thing = getattr(module, name, None)
        is_own = listed is not None or getattr(thing, "__module__", None) == module.__name__
        is_shown = inspect.isclass(thing) or inspect.isroutine(thing)
        if not name.startswith("_") and is_own and is_shown and _docstring(thing):
            yield name, thing


def _methods(owner: type) -> Iterator[tuple[str, object]]:
    """Yield the public methods and properties that a class itself defines, by name."""
    for name, value in sorted(vars(owner).items()):
        method = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        is_shown = inspect.isroutine(method) or inspect.isdatadescriptor(method)
        if (not name.startswith("_") or name == "__init__") and is_shown and _docstring(method):
            yield name, method


def _described(name: str, thing: object) -> tuple[str, str]:
    return _signature(name, thing), _docstring(thing)


def _signature(name: str, thing: object) -> str:
    """Return a call as `help()` shows it; "" where Python doesn't know it."""
    if not callable(thing):
        return ""
    try:
        return without_addresses(f"    {name}{inspect.signature(thing)}")
    except (ValueError, TypeError):
        return ""


def _docstring(thing: object) -> str:
    """Return the docstring that a thing itself has, not one that it inherits."""
    text = getattr(thing, "__doc__", None)
    if not isinstance(text, str):
        return ""
    return without_headings(without_addresses(inspect.cleandoc(text)))
