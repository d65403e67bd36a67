"""Heddle's components that others hold: an agent its model, a super component its pipeline."""

from collections import deque
from collections.abc import Iterator
from typing import Final

from haystack import Pipeline
from haystack.core.component import Component
from haystack.tools.tool import Tool
from haystack.tools.toolset import Toolset

from heddle.adapters.haystack.engine_part import EnginePart

STEPS_MAX: Final = 6  # from a component to a part of its parts
OBJECTS_MAX: Final = 1_000


def held_parts(component: object) -> list[EnginePart]:
    """Return Heddle's components within a component, those of its pipelines and tools included.

    Looked through are components, tools, pipelines, lists and dicts.
    """
    found: list[EnginePart] = []
    seen: set[int] = set()
    waiting = deque((one, 1) for one in _inside(component))
    while waiting and len(seen) < OBJECTS_MAX:
        one, steps = waiting.popleft()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, EnginePart):
            found.append(one)
        elif steps < STEPS_MAX:
            waiting.extend((part, steps + 1) for part in _inside(one))
    return found


def _inside(one: object) -> Iterator[object]:
    if isinstance(one, Pipeline):
        yield from (component for _, component in one.walk())
    elif isinstance(one, list | tuple | set | frozenset):
        yield from one
    elif isinstance(one, dict):
        yield from one.values()
    elif isinstance(one, Component | Tool | Toolset):
        # Haystack's own attributes lead back to the pipeline that a component is in.
        yield from (value for name, value in vars(one).items() if not name.startswith("__"))
