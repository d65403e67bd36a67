"""The course of one generation: which server is asked, what is tried again, how it ends.

1. Choose a server: one that is up, takes requests, and has the least to do.
2. Wait while that server wants no request. Where the wait would outlast the deadline, fail now.
3. Send the request, and hand on each piece of text.
4. Where the server refuses a field of the request, send it once more without. What succeeds so is
   remembered, and the receipt names the field.
5. Where a failure may pass and no text was shown yet, begin again, at most `TRIES_MAX` times.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from heddle.core.payloads import Sampling
from heddle.core.ports import Clock
from heddle.core.results import FinishReason, Generated, RemoteRun
from heddle.engines.remote.endpoint import Endpoint, Endpoints
from heddle.engines.remote.generation.answer_stream import AnswerStream
from heddle.engines.remote.generation.dialect import (
    Abilities,
    Prompt,
    notes_of,
    request_body,
    without,
)
from heddle.engines.remote.problem import RemoteProblem, Trouble
from heddle.engines.remote.refusal import problem_of

TRIES_MAX: Final = 3
REFUSALS_MAX: Final = 4  # fields that are left out one after another, in one try
SILENCE_S_MAX: Final = 60.0  # between two pieces of an answer that has begun
PAUSE_S: Final = 0.25  # before a server that failed is asked again because no other is there

Server = Endpoint[Abilities]


@dataclass(slots=True)
class Course:
    """One generation on its way through the servers of a model.

    Args:
        endpoints: the servers.
        clock: the time of deadlines.
        prompt: what is asked.
        sampling: how tokens are chosen.
        deadline_s: until when the answer is wanted, on that clock [s].
        on_text: hears each piece of the answer.
        tries_max: how often it is sent in all.

    Mutates: the endpoints learn how the servers do and what they can't.
    """

    endpoints: Endpoints[Abilities]
    clock: Clock
    prompt: Prompt
    sampling: Sampling
    deadline_s: float
    on_text: Callable[[str], None]
    tries_max: int = TRIES_MAX
    tries: int = 0
    _tried: list[Server] = field(default_factory=list)
    _stream: AnswerStream = field(init=False)

    def __post_init__(self) -> None:
        self._stream = AnswerStream(self.on_text)

    async def run(self) -> Generated:
        """Return the answer.

        Raises:
            RemoteProblem: there is none; its words name the server.
        """
        while True:
            server = await self._next_server()
            self.tries += 1
            server.in_flight += 1
            try:
                await self._ask(server)
            except RemoteProblem as problem:
                if problem.may_pass or problem.trouble is Trouble.SILENT:
                    server.failed(problem, self.clock.now_s())
                is_last = self.tries >= self.tries_max or not problem.may_pass
                if self._stream.parts or is_last:
                    raise self._named(server, problem) from None
                self._tried.append(server)
            else:
                server.answered()
                return self._generated(server)
            finally:
                server.in_flight -= 1

    async def _next_server(self) -> Server:
        """Return the server to ask, once it may be asked."""
        now_s = self.clock.now_s()
        server = self.endpoints.choose(now_s, self._tried)
        wait_s = server.busy_until_s - now_s
        if wait_s <= 0 and server in self._tried:
            wait_s = PAUSE_S * (1 << (self.tries - 1))
        left_s = self.deadline_s - now_s
        if wait_s > left_s:
            raise RemoteProblem(
                Trouble.BUSY,
                f"{server.name} is too busy: it wants no request for {wait_s:.3g} s, and this "
                f"one has {max(0.0, left_s):.3g} s left",
                retry_after_s=wait_s,
            )
        if wait_s > 0:
            await _pause(wait_s)
        return server

    async def _ask(self, server: Server) -> None:
        """Send the request; leave out, one after another, fields that the server refuses."""
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
                watch = _SilenceWatch(stream, limit)
                try:
                    await server.client.send("POST", call, body, stream)
                finally:
                    watch.stop()
        except TimeoutError:
            raise RemoteProblem(
                Trouble.SILENT, f"has sent nothing for {SILENCE_S_MAX:g} s in mid-answer"
            ) from None
        if stream.status != 200:
            raise problem_of(stream.response, call, server.client.key)
        stream.check()

    def _named(self, server: Server, problem: RemoteProblem) -> RemoteProblem:
        stream = self._stream
        when = f" after {stream.chars:,} characters of the answer" if stream.parts else ""
        words = f"model {server.abilities.model!r}: {server.name} {problem.words}{when}"
        if problem.trouble is Trouble.NO_ENTRY and not server.client.key.value:
            words += "; set HEDDLE_REMOTE_KEY"
        if self.tries > 1:
            words += f"; {self.tries} tries"
        return RemoteProblem(problem.trouble, words, retry_after_s=problem.retry_after_s)

    def _generated(self, server: Server) -> Generated:
        stream = self._stream
        notes = notes_of(self.prompt, self.sampling, server.abilities)
        if stream.is_filtered:
            notes += ("the server's content filter ended the answer",)
        if stream.has_thought and not stream.parts:
            notes += ("the model spent all its tokens on reasoning: raise max_tokens",)
        usage = stream.usage
        run = RemoteRun(
            server=server.name,
            model=server.abilities.model,
            prompt_tokens=_count(usage.get("prompt_tokens")),
            prompt_tokens_reused=_cached(usage.get("prompt_tokens_details")),
            tokens=_count(usage.get("completion_tokens")) or len(stream.parts),
            tries=self.tries,
            notes=notes,
        )
        return Generated(stream.text, (), stream.reason or FinishReason.STOP, remote=run)


class _SilenceWatch:
    """Ends a wait when an answer that has begun brings nothing more."""

    def __init__(self, stream: AnswerStream, limit: asyncio.Timeout) -> None:
        self._stream, self._limit = stream, limit
        self._loop = asyncio.get_running_loop()
        self._seen = 0
        self._timer = self._loop.call_later(SILENCE_S_MAX, self._look)

    def stop(self) -> None:
        """Watch no more."""
        self._timer.cancel()

    def _look(self) -> None:
        seen = self._stream.bytes_seen
        if seen and seen == self._seen:
            self._limit.reschedule(self._loop.time())
            return
        self._seen = seen
        self._timer = self._loop.call_later(SILENCE_S_MAX, self._look)


async def _pause(seconds: float) -> None:
    """Wait; a cancelled generation stops waiting at once."""
    await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=seconds)


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _cached(details: object) -> int:
    return _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
