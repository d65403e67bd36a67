"""What the runtime carries out itself: callable edges, joined values, rounds, known texts."""

import logging
from dataclasses import dataclass, field

from heddle.core.payloads import DecodePayload
from heddle.core.ports import Clock
from heddle.graph.primitive import (
    CollectConfig,
    ConditionConfig,
    DecodeConfig,
    JoinConfig,
    LookupConfig,
    PrefillConfig,
    ResumeConfig,
    RoundsConfig,
    SpliceConfig,
)
from heddle.runtime.answer_lookups import AnswerLookups
from heddle.runtime.conditions import choose_targets
from heddle.runtime.events import TokenDelta
from heddle.runtime.folding import fold, text_value
from heddle.runtime.function_calls import FunctionCalls
from heddle.runtime.readiness import Readiness
from heddle.runtime.repeats import remember, repeated, stand_in
from heddle.runtime.request import Guess, PrimitiveRun, Request
from heddle.runtime.request_table import RequestTable
from heddle.runtime.rounds import Rounds
from heddle.runtime.values import (
    as_passages,
    as_text,
    joined,
    prompt_parts,
    resolve,
    unique_passages,
)

log = logging.getLogger(__name__)

CALL_S_MAX = 0.05  # every request waits while a callable edge runs
TOLD_MAX = 256


@dataclass(slots=True)
class Controls:
    """Runs what `readiness` has queued as ready and needs no engine.

    Args:
        readiness: where they come from, and where their values go.
        requests: where a request ends whose callable edge raises.
        rounds: carries out those of generations that retrieve while they decode.
        functions: carries out those of workflow functions.
        lookups: carries out those of answer caches.
        clock: times the callable edges.

    Mutates: completes primitives, opens the regions that callable edges choose.
    """

    readiness: Readiness
    requests: RequestTable
    rounds: Rounds
    functions: FunctionCalls
    lookups: AnswerLookups
    clock: Clock
    _told: set[tuple[str, str]] = field(default_factory=set)  # slow edges, by workflow and node

    def run(self, now_s: float) -> None:
        """Run all that are ready, and those that become ready by it."""
        waiting = self.readiness.dispatcher.controls
        while waiting:
            request, run = waiting.popleft()
            if not request.is_ended:
                self.requests.guard(request, now_s, self._carry_out, request, run, now_s)

    def _carry_out(self, request: Request, run: PrimitiveRun, now_s: float) -> None:
        config, node = run.primitive.config, run.primitive.node
        if isinstance(config, RoundsConfig):
            self.rounds.go_on(request, run, now_s)
            return
        if isinstance(config, SpliceConfig):
            self.rounds.splice(request, run, now_s)
            return
        if isinstance(config, LookupConfig):
            self.lookups.go_on(request, run, now_s)
            return
        if isinstance(config, PrefillConfig):
            self._take_text(request, run, now_s)
            return
        if isinstance(config, CollectConfig):
            groups = [as_passages(resolve(part, request.store, node)) for part in config.parts]
            self.readiness.complete(request, run, unique_passages(groups), now_s)
            return
        if isinstance(config, JoinConfig):
            before = "".join(map(as_text, prompt_parts(config.before, request.store, node)))
            values = (
                (resolve(part, request.store, node), "" if part.key == config.own else before)
                for part in config.parts
            )
            value = joined(values)
            self.readiness.complete(request, run, value, now_s)
            return
        if isinstance(config, ResumeConfig):
            started_s = self.clock.now_s()
            self.functions.resume(request, run, now_s)
            self._watch(request.workflow.name, node, self.clock.now_s() - started_s)
            return
        assert isinstance(config, ConditionConfig), f"{run.primitive.name!r} is no control"
        started_s = self.clock.now_s()
        targets = choose_targets(config, node, request.workflow, request.store)
        self._watch(request.workflow.name, node, self.clock.now_s() - started_s)
        if targets:
            self.readiness.open_region(request, targets, now_s)
        self.readiness.complete(request, run, None, now_s)

    def _take_text(self, request: Request, prefill: PrimitiveRun, now_s: float) -> None:
        """End a generation whose text is known.

        It is a stand-in, or was written behind a guess that has won, or for the same prompt before.
        """
        assert prefill.plan.rider is not None, f"{prefill.primitive.name!r} has no decode"
        decode = request.runs[prefill.plan.rider]
        if prefill.won is not None:
            self._take_ahead(request, prefill, decode, prefill.won, now_s)
            return
        result = stand_in(request, prefill)
        if result is None:
            result = repeated(request, prefill)
            request.receipt.repeated += 1
        assert result is not None, f"{prefill.primitive.name!r} has no text"
        config, node = decode.primitive.config, decode.primitive.node
        assert isinstance(config, DecodeConfig), f"{decode.primitive.name!r} rides as a decode"
        prefill.tell_start(request.sink)
        if result.text:
            request.sink(TokenDelta(node, result.text))
        decode.sent_s = now_s  # its prefill's end doesn't start it
        self.readiness.complete(request, prefill, None, now_s)
        value = text_value(result, config.as_lines, node, request.receipt)
        self.readiness.complete(request, decode, value, now_s)

    def _take_ahead(
        self,
        request: Request,
        prefill: PrimitiveRun,
        decode: PrimitiveRun,
        guess: Guess,
        now_s: float,
    ) -> None:
        """End a generation with the text that was written behind its guess, which has won."""
        ahead, config = guess.ahead, decode.primitive.config
        assert ahead is not None, "a guess without a decode has no text"
        assert ahead.result is not None, "the text is not whole"
        assert isinstance(config, DecodeConfig), f"{decode.primitive.name!r} rides as a decode"
        prefill.tell_start(request.sink)
        if ahead.text:
            request.sink(TokenDelta(decode.primitive.node, ahead.text))
        if guess.prefilled is not None:
            request.receipt.take_prompt(
                prefill.primitive.name, guess.prefilled, is_again=prefill.is_counted
            )
            prefill.parts[0] = guess.prefilled
        for run in (prefill, decode):
            run.engine, run.ready_s, run.sent_s = guess.engine, now_s, now_s
        decode.prefill, decode.payload = prefill, DecodePayload(guess.task_id, config.sampling)
        remember(request, decode, ahead.result)
        decode.parts[0] = ahead.result
        value = fold(decode.primitive, decode.parts, None, request.receipt)
        self.readiness.complete(request, prefill, None, now_s)
        self.readiness.complete(request, decode, value, now_s)

    def _watch(self, workflow: str, node: str, seconds: float) -> None:
        """Warn of a slow callable edge, once."""
        edge = workflow, node
        if seconds <= CALL_S_MAX or edge in self._told or len(self._told) >= TOLD_MAX:
            return
        self._told.add(edge)
        log.warning(
            "workflow %r: the Python code after node %r took %.0f ms, and every request waited "
            "for it; do what takes time in a tool (add_tool) before it",
            workflow,
            node,
            seconds * 1000.0,
        )
