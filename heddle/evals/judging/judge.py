"""A judge model behind an OpenAI-compatible endpoint, asked about many answers at once."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from heddle.app.models.remote_models import RemoteModel, run_apart
from heddle.core.payloads import Sampling
from heddle.core.ports import Clock
from heddle.core.results import FinishReason, Generated
from heddle.engines.remote.attempts import Attempts
from heddle.engines.remote.dialect import Abilities, Prompt
from heddle.engines.remote.endpoint import Endpoints
from heddle.engines.remote.generation.course import Course
from heddle.engines.remote.problem import RemoteProblem, Trouble
from heddle.evals.judging.exhibit import Exhibit
from heddle.evals.judging.judgement import Judgement, Unjudged
from heddle.evals.judging.reply import MalformedReply, read_statements, read_verdicts
from heddle.runtime.clock import SystemClock

IN_FLIGHT_MAX: Final = 8
CALL_S_MAX: Final = 120.0
REPLY_TOKENS_MAX: Final = 2048  # a model that reasons first needs most of them
FAILURES_MAX: Final = 16  # in a row; a judge that is down would cost CALL_S_MAX for each answer


def judge_answers(
    model: RemoteModel[Abilities],
    exhibits: Sequence[Exhibit],
    on_judged: Callable[[], None] = lambda: None,
) -> tuple[Judgement, ...]:
    """Return a judgement of each answer, in their order.

    Args:
        model: the judge.
        exhibits: what is judged.
        on_judged: hears of each that is done.
    """

    async def judge_all() -> tuple[Judgement, ...]:
        endpoints = model.endpoints()
        judge = Judge(endpoints, SystemClock())
        seats = asyncio.Semaphore(IN_FLIGHT_MAX)

        async def judge_one(exhibit: Exhibit) -> Judgement:
            async with seats:
                judgement = await judge.judge(exhibit)
            on_judged()
            return judgement

        try:
            return tuple(await asyncio.gather(*map(judge_one, exhibits)))
        finally:
            endpoints.close()

    return run_apart(judge_all)


@dataclass(slots=True)
class Judge:
    """Splits an answer into statements, then asks of each whether the passages support it.

    Args:
        endpoints: the judge's servers.
        clock: the time of a call's deadline.
        call_s_max: until a reply must be there [s].

    Mutates: after FAILURES_MAX calls without a reply in a row, no more are made.
    """

    endpoints: Endpoints[Abilities]
    clock: Clock
    call_s_max: float = CALL_S_MAX
    _failures: int = 0

    async def judge(self, exhibit: Exhibit) -> Judgement:
        """Return the judgement of an answer; a reply that can't be read is none, never a guess."""
        try:
            statements = read_statements(await self._ask(exhibit.statements_prompt()))
            if not statements:
                return Judgement()
            reply = await self._ask(exhibit.verdicts_prompt(statements))
            return Judgement(statements, read_verdicts(reply, len(statements)))
        except MalformedReply as malformed:
            return Judgement(unjudged=Unjudged.MALFORMED, words=str(malformed))
        except RemoteProblem as problem:
            return Judgement(unjudged=Unjudged.FAILED, words=problem.words)

    async def _ask(self, prompt: str) -> str:
        """Return the judge's reply.

        Raises:
            RemoteProblem: there is none.
            MalformedReply: it was cut at REPLY_TOKENS_MAX.
        """
        if self._failures >= FAILURES_MAX:
            words = f"the judge was asked no more after {FAILURES_MAX} failures in a row"
            raise RemoteProblem(Trouble.ABSENT, words)
        try:
            generated = await self._generated(prompt)
        except RemoteProblem as problem:
            self._failures += not problem.is_callers  # another answer may be short enough
            raise
        self._failures = 0
        if generated.finish_reason is FinishReason.LENGTH:
            raise MalformedReply(f"the judge's reply was cut at {REPLY_TOKENS_MAX} tokens")
        return generated.text

    async def _generated(self, prompt: str) -> Generated:
        attempts = Attempts(self.endpoints, self.clock, self.clock.now_s() + self.call_s_max)
        sampling = Sampling(max_tokens=REPLY_TOKENS_MAX)
        course = Course(attempts, Prompt(prompt), sampling, lambda _: None)
        try:
            async with asyncio.timeout(self.call_s_max):
                return await course.run()
        except TimeoutError:
            words = f"the judge didn't answer within {self.call_s_max:g} s"
            raise RemoteProblem(Trouble.LATE, words) from None
