"""Counts the calls of a function, wherever heddle's modules have imported it."""

import sys
from collections.abc import Callable

import pytest


def count_calls(
    monkeypatch: pytest.MonkeyPatch, function: Callable, *, but_in: tuple[str, ...] = ()
) -> list[tuple]:
    """Return a list that takes in the positional arguments of each call from now on.

    Calls by the modules named in `but_in` aren't counted.
    """
    calls: list[tuple] = []

    def counted(*args: object, **settings: object) -> object:
        calls.append(args)
        return function(*args, **settings)

    for name, module in list(sys.modules.items()):
        if not name.startswith("heddle.") or name in but_in:
            continue
        for attribute, value in list(vars(module).items()):
            if value is function:
                monkeypatch.setattr(module, attribute, counted)
    return calls
