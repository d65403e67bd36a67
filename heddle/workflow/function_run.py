"""One run of a workflow function: from its calls to the next part of a workflow."""

import logging
import sys
import traceback
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import NamedTuple

from greenlet import GreenletExit, getcurrent, greenlet

from heddle.core.errors import HeddleError, WorkflowError
from heddle.workflow.calls import Calls
from heddle.workflow.deferred import Deferred, plain_text
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.workflow import Function, Workflow

log = logging.getLogger(__name__)


class Returned(NamedTuple):
    """What a function has returned: the value of a slot, or a text; neither = as a graph ends."""

    slot: str | None = None
    text: str | None = None


class Step(NamedTuple):
    """What a function has called since the step before, and why it stopped.

    `part` holds the new nodes. `earlier` maps slots of theirs to those whose passages they go on
    from. The function waits on its `line` for the value of `waits_for`, has `returned`, or neither:
    it can go on. Line 0 is its end: the text that it returns holds the value.
    """

    part: RAGraph
    earlier: dict[str, str]
    waits_for: str | None = None
    line: int = 0
    returned: Returned | None = None


@dataclass(slots=True)
class FunctionRun:
    """Runs a function up to where it needs a value, and on from there.

    A greenlet holds it there: an `if` can't be awaited. (ADR 33)

    Mutates: `calls`, and all that the function itself changes.
    """

    workflow: Workflow
    calls: Calls = field(init=False)
    _greenlet: greenlet = field(init=False)

    def __post_init__(self) -> None:
        made = self.workflow
        slots = sorted(made.inputs)
        self.calls = Calls(made.name, slots, made.max_steps, self._wait, self._hand_in)
        self._greenlet = greenlet(self._main)

    @property
    def _function(self) -> Function:
        assert self.workflow.function is not None, f"workflow {self.workflow.name!r} is a graph"
        return self.workflow.function

    def go_on(self, value: object = None) -> Step:
        """Run on, with the value that was waited for; return the next step.

        Raises:
            WorkflowError: the function raised, awaits something else, or returned no answer.
        """
        step: Step = self._greenlet.switch(value)
        return step

    def close(self) -> None:
        """End a function that waits; an error that it raises then is logged, and nothing more."""
        try:
            self._greenlet.throw()
        except HeddleError:
            log.exception("workflow %r raised when its request had ended", self.workflow.name)

    def _main(self, _: object) -> Step:
        made = self.workflow
        inputs = {name: Deferred(name, self._wait, is_there=True) for name in made.inputs}
        coroutine = self._function(self.calls, **inputs)
        assert isinstance(coroutine, Coroutine), f"{made.name!r} is no async def"
        try:
            coroutine.send(None)
        except StopIteration as end:
            return self._step(returned=self._returned(end.value))
        except (HeddleError, GreenletExit):  # the latter ends a function whose request has ended
            raise
        except BaseException as error:  # nothing of it must end the runtime's cycle
            where = self._where(error)
            raise WorkflowError(
                f"workflow {made.name!r}, {where}: {type(error).__name__}: {error}"
            ) from error
        coroutine.close()
        raise WorkflowError(
            f"workflow {made.name!r} awaits something that is no call of its own: do that in a "
            f"tool, such as `await rag.tool(function, ...)`"
        )

    def _where(self, error: BaseException) -> str:
        """Return the line that raised, the last one in the function's own file."""
        code = getattr(self._function, "__code__", None)
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if code and frame.filename == code.co_filename]
        return f"line {own[-1].lineno} of {own[-1].filename}" if own else "in one of its calls"

    def _returned(self, value: object) -> Returned:
        if isinstance(value, Deferred):
            return Returned(slot=value.slot)
        if isinstance(value, str):
            return Returned(text=plain_text(value, self._wait))
        if value is None:
            return Returned()
        raise WorkflowError(
            f"workflow {self.workflow.name!r} returned {type(value).__name__}: return what a call "
            "gave, or a text"
        )

    def _wait(self, slot: str) -> object:
        if getcurrent() is not self._greenlet:
            raise WorkflowError(
                f"workflow {self.workflow.name!r}: the value of {slot!r} was asked for outside of "
                "the function's own run"
            )
        return self._greenlet.parent.switch(self._step(waits_for=slot, line=self._line()))

    def _hand_in(self) -> None:
        self._greenlet.parent.switch(self._step())

    def _step(
        self, waits_for: str | None = None, line: int = 0, returned: Returned | None = None
    ) -> Step:
        part, earlier = self.calls.part, self.calls.earlier
        self.calls.begin_part()
        return Step(part, earlier, waits_for, line, returned)

    def _line(self) -> int:
        """Return where in the function's own code it is."""
        frame, code = sys._getframe(), getattr(self._function, "__code__", None)
        while frame.f_back is not None and frame.f_code is not code:
            frame = frame.f_back
        return frame.f_lineno if frame.f_code is code else 0
