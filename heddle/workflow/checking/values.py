"""Checks of the values that a workflow is built from; each refusal says what is meant."""

import inspect
from collections.abc import Iterable

from heddle.core.errors import WorkflowError


def check_function(function: object, where: str) -> None:
    """Refuse as a tool what gives no value when it is called.

    Args:
        function: called in a thread.
        where: the node, for the error message.

    Raises:
        WorkflowError: it isn't callable, or calling it gives a coroutine or a generator.
    """
    if not callable(function):
        raise WorkflowError(f"{where}: give it a function, got {function!r:.40}")
    called = (function, getattr(function, "__call__", None))  # noqa: B004 - the method itself
    if any(map(inspect.iscoroutinefunction, called)):
        raise WorkflowError(f"{where}: a tool is a plain function: wrap it in asyncio.run")
    if any(inspect.isgeneratorfunction(f) or inspect.isasyncgenfunction(f) for f in called):
        raise WorkflowError(f"{where}: a tool is a plain function: return a list, not a generator")


def check_list(where: str, name: str, values: object) -> None:
    """Refuse a single value where a list is meant; a text would be read letter by letter.

    Raises:
        WorkflowError: it is a text or no collection.
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise WorkflowError(f"{where}: {name} must be a list, such as [{values!r:.40}]")
