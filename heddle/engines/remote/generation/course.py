"""The course of one generation: what is sent, what is left out, how it ends.

Beside what `attempts` does: where a server refuses a field of the request, it is sent once more
without. What succeeds so is remembered, and the receipt names the field.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from heddle.core.payloads import Sampling
from heddle.core.prompts.constraint import Constraint, ConstraintKind
from heddle.core.results import FinishReason, Generated, RemoteRun
from heddle.engines.remote.attempts import Attempts
from heddle.engines.remote.dialect import (
    Abilities,
    Prompt,
    notes_of,
    request_body,
    without,
)
from heddle.engines.remote.endpoint import Endpoint
from heddle.engines.remote.generation import silence
from heddle.engines.remote.generation.answer_stream import AnswerStream
from heddle.engines.remote.generation.silence import SilenceWatch
from heddle.engines.remote.probe import shown_name
from heddle.engines.remote.problem import RemoteProblem, Trouble
from heddle.engines.remote.refusal import problem_of

REFUSALS_MAX: Final = 4  # fields that are left out one after another, in one try

Server = Endpoint[Abilities]


@dataclass(slots=True)
class Course:
    """One generation on its way through the servers of a model.

    Args:
        attempts: the servers, and how often they are asked.
        prompt: what is asked.
        sampling: how tokens are chosen.
        on_text: hears each piece of the answer.

    Mutates: the servers' abilities, as far as they become known.
    """

    attempts: Attempts[Abilities]
    prompt: Prompt
    sampling: Sampling
    on_text: Callable[[str], None]
    _stream: AnswerStream = field(init=False)

    def __post_init__(self) -> None:
        self._stream = AnswerStream(self.on_text)

    async def run(self) -> Generated:
        """Return the answer.

        Raises:
            RemoteProblem: there is none; its words name the server.
        """
        server, _ = await self.attempts.run(self._ask, lambda: self._stream.chars)
        return self._generated(server)

    async def _ask(self, server: Server) -> None:
        """Send the request; leave out, one after another, fields that the server refuses."""
        misfit = self.prompt.misfit(server.abilities.dialect)
        if misfit:
            raise RemoteProblem(Trouble.REFUSED, misfit)
        left_out = frozenset[str]()
        for _ in range(REFUSALS_MAX):
            body = request_body(self.prompt, self.sampling, server.abilities, left_out)
            try:
                await self._send(server, body)
            except RemoteProblem as problem:
                is_refusal = problem.trouble is Trouble.REFUSED
                more = without(body, problem.field) if is_refusal else frozenset[str]()
                if not more:
                    raise
                left_out |= more
            else:
                server.abilities.lacks |= left_out
                return
        raise RemoteProblem(Trouble.REFUSED, "refuses one field of the request after another")

    async def _send(self, server: Server, body: dict[str, object]) -> None:
        call = server.abilities.dialect.value
        stream = self._stream = AnswerStream(self.on_text)
        try:
            async with asyncio.timeout(None) as limit:
                watch = SilenceWatch(stream, limit, asyncio.get_running_loop())
                try:
                    await server.client.send("POST", call, body, stream)
                finally:
                    watch.stop()
        except TimeoutError:
            raise RemoteProblem(
                Trouble.SILENT, f"has sent nothing for {silence.SILENCE_S_MAX:g} s in mid-answer"
            ) from None
        if stream.status != 200:
            raise problem_of(stream.response, call, server.client.key)
        stream.check()

    def _generated(self, server: Server) -> Generated:
        stream = self._stream
        notes = notes_of(self.prompt, self.sampling, server.abilities)
        if stream.reason is not FinishReason.LENGTH and _is_broken(
            stream.text, self.sampling.constraint
        ):
            notes += (
                "the server's answer is not of the form asked for: it may not know the field",
            )
        if stream.is_filtered:
            notes += ("the server's content filter ended the answer",)
        if stream.has_thought and not stream.parts:
            notes += ("the model spent all its tokens on reasoning: raise max_tokens",)
        usage = stream.usage
        run = RemoteRun(
            server=server.name,
            model=shown_name(server.abilities.model),
            prompt_tokens=_count(usage.get("prompt_tokens")),
            prompt_tokens_reused=_cached(usage.get("prompt_tokens_details")),
            tokens=_count(usage.get("completion_tokens")) or len(stream.parts),
            tries=self.attempts.tries,
            notes=notes,
        )
        return Generated(stream.text, (), stream.reason or FinishReason.STOP, remote=run)


def _is_broken(text: str, constraint: Constraint | None) -> bool:
    """Whether a whole text is not of the form asked for; of a schema, only whether it is JSON."""
    if constraint is None:
        return False
    match constraint.kind:
        case ConstraintKind.CHOICE:
            return text not in constraint.value
        case ConstraintKind.REGEX:
            return False  # its dialect is the server's
        case ConstraintKind.JSON_SCHEMA:
            try:
                json.loads(text)
            except (ValueError, RecursionError):
                return True
            return False


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _cached(details: object) -> int:
    return _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
