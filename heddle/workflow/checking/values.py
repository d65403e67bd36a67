"""Checks of the values that a workflow is built from; each refusal says what is meant."""

import inspect
import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import TypeGuard

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


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number, of Python or NumPy; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_whole(where: str, name: str, value: object, low: int, high: int | None = None) -> None:
    """Refuse what is no whole number in low..high; None = without a bound.

    Raises:
        WorkflowError: it isn't one.
    """
    if not is_whole(value):
        raise WorkflowError(f"{where}: {name} must be a whole number, got {value!r:.40}")
    if high is not None and not low <= value <= high:
        raise WorkflowError(f"{where}: {name} must be in {low}..{high}, got {value}")
    if value < low:
        raise WorkflowError(f"{where}: {name} must be at least {low}, got {value}")


def is_finite(value: object) -> TypeGuard[float]:
    """Whether a value is a finite number; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def check_finite(where: str, name: str, value: object) -> None:
    """Refuse what is no finite number.

    Raises:
        WorkflowError: it isn't one.
    """
    if not is_finite(value):
        raise WorkflowError(f"{where}: {name} must be a finite number, got {value!r:.40}")
