"""Workflows written as Python functions: `@as_workflow async def`. (ADR 33)"""

import inspect
from dataclasses import dataclass
from typing import Any

from heddle.core.errors import WorkflowError
from heddle.workflow.checking.values import check_whole
from heddle.workflow.ragraph import DEFAULT_MAX_STEPS
from heddle.workflow.template import QUESTION, QUESTION_ALIASES
from heddle.workflow.workflow import Function, Workflow


@dataclass(slots=True)
class WorkflowFunction:
    """A function that makes its workflow as it runs, once for each request.

    It runs in the server's scheduling thread, as callable edges do: what takes long belongs into a
    tool. `max_steps` bounds its calls.
    """

    function: Function
    name: str
    inputs: tuple[str, ...]
    max_steps: int = DEFAULT_MAX_STEPS
    _compiled: Workflow | None = None

    def compile(self) -> Workflow:
        """Return the workflow before anything of it is known."""
        if self._compiled is None:
            self._compiled = Workflow(
                name=self.name,
                nodes={},
                edges=frozenset(),
                branches=(),
                entries=(),
                outputs=frozenset(),
                writers={},
                list_slots={},
                inputs=frozenset(self.inputs),
                max_steps=self.max_steps,
                function=self.function,
            )
        return self._compiled


def as_workflow(function: Function | None = None, *, max_steps: int = DEFAULT_MAX_STEPS) -> Any:  # noqa: ANN401 - a WorkflowFunction, or the decorator that makes one
    """Make a workflow of an `async def`; `@as_workflow` or `@as_workflow(max_steps=...)`.

    Its first parameter makes the calls (see `heddle.workflow.calls.Calls`), the others are the
    workflow's inputs, `query` among them. It returns the answer: what a call gave, or a text.

    Raises:
        WorkflowError: it is no `async def`, or its parameters can't be inputs.

    Example:
        from heddle import as_workflow

        @as_workflow
        async def brief(rag, query):
            docs = await rag.retrieve(query, name="docs", topk=1)
            return await rag.generate(f"{docs}Question: {query}", role="answer")

        print(server.app(brief).invoke("Who founded Oak Mill?").text)  # Ann Reed
    """
    if function is None:
        return lambda wrapped: as_workflow(wrapped, max_steps=max_steps)
    name = getattr(function, "__name__", repr(function))
    if not inspect.iscoroutinefunction(function):
        raise WorkflowError(f"workflow function {name!r}: write it as `async def {name}(...)`")
    check_whole(f"workflow function {name!r}", "max_steps", max_steps, 1)
    parameters = list(inspect.signature(function).parameters.values())
    plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
    if any(p.kind is not plain or p.default is not p.empty for p in parameters):
        raise WorkflowError(
            f"workflow function {name!r}: its parameters are plain names without defaults, such as "
            f"`async def {name}(rag, query)`"
        )
    inputs = tuple(p.name for p in parameters[1:])
    if QUESTION not in inputs or (QUESTION_ALIASES - {QUESTION}) & set(inputs):
        raise WorkflowError(
            f"workflow function {name!r}: the question is its parameter {QUESTION!r}, as in "
            f"`async def {name}(rag, query)`"
        )
    return WorkflowFunction(function, name, inputs, max_steps)
