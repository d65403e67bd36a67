"""Workflows that a function makes as it runs: its next part, and the values that it waits for."""

from dataclasses import dataclass, field
from functools import partial

from heddle.core.errors import WorkflowError
from heddle.runtime.readiness import Readiness
from heddle.runtime.request import OpenedPart, PrimitiveRun, Request
from heddle.workflow.function_parts import FunctionParts
from heddle.workflow.function_run import FunctionRun, Returned, Step
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.template import DOCUMENTS


@dataclass(slots=True)
class FunctionCalls:
    """Runs workflow functions, and opens what they call as regions of their requests.

    Args:
        readiness: opens regions, and knows the engines.

    Mutates: the requests' workflows, scopes and runs; a bounded cache of parts.
    """

    readiness: Readiness
    _parts: FunctionParts = field(default_factory=FunctionParts)

    def start(self, request: Request, now_s: float) -> None:
        """Run a request's function up to the first value that it waits for.

        Raises:
            WorkflowError: the function raised, or a call of its can't be run.
            ConfigError: no engine carries out one of its calls.
        """
        request.function_run = FunctionRun(request.workflow)
        self._go_on(request, None, now_s)
        if not request.runs and not request.is_ended:
            self.readiness.requests.finish(request, now_s)

    def resume(self, request: Request, wait: PrimitiveRun, now_s: float) -> None:
        """Run a function on whose value is there.

        Raises:
            WorkflowError, ConfigError: see `start`.
        """
        (key,) = wait.primitive.reads
        self._go_on(request, request.store.get(key), now_s)
        self.readiness.complete(request, wait, None, now_s)

    def _go_on(self, request: Request, value: object, now_s: float) -> None:
        assert request.function_run is not None, f"request {request.id} has no function"
        while True:
            step = request.function_run.go_on(value)
            if step.part.nodes:
                self._open(request, step, now_s)
            if step.returned is not None:
                _take_answer(request, step.returned)
                return
            value = None
            if step.waits_for is not None:
                request.has_read = True
                key = _key(request, step.waits_for)
                if key not in request.store:
                    line = f"line {step.line}" if step.line else "its end"
                    note = f"{line} waited for {step.waits_for!r}"
                    request.receipt.barriers.append(note)
                    request.has_waited = True
                    self.readiness.open_wait(request, key, now_s)
                    return
                value = request.store.get(key)

    def _open(self, request: Request, step: Step, now_s: float) -> None:
        before = request.workflow
        keeps = not (request.has_read and DOCUMENTS in request.inputs)
        request.workflow = self._parts.with_part(before, step.part, keeps=keeps)
        self.readiness.dispatcher.check(request.workflow)
        for slot, earlier in step.earlier.items():
            request.scope = request.scope.with_key(slot, _key(request, earlier))
        if request.has_waited and not step.earlier and keeps:
            self._name_hindered(request, step.part)
        request.opened, request.has_waited = OpenedPart(before, step.part, request.scope), False
        self.readiness.open_region(request, request.workflow.entries, now_s)

    def _name_hindered(self, request: Request, part: RAGraph) -> None:
        """Add to the newest barrier the passes that would have changed both parts as one.

        Mutates: the receipt's barriers.
        """
        opened = request.opened
        if opened is None:
            return
        joined = self._parts.joined(opened.before, opened.part, part)
        if joined is None:
            return
        first = self._parts.with_part(opened.before, opened.part)
        passes_of = partial(self.readiness.passes_of, request)
        did_act = {*passes_of(first, opened.scope), *passes_of(request.workflow, request.scope)}
        hindered = [name for name in passes_of(joined, opened.scope) if name not in did_act]
        if hindered:
            request.receipt.barriers[-1] += f": {', '.join(hindered)} could not act across it"


def _take_answer(request: Request, returned: Returned) -> None:
    if returned.slot is not None:
        request.returned_key = _key(request, returned.slot)
    request.returned_text = returned.text


def _key(request: Request, slot: str) -> str:
    key = request.scope.key_of(slot)
    if key is None:
        raise WorkflowError(f"workflow {request.workflow.name!r}: {slot!r} is of another request")
    return key
