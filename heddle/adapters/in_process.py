"""A server of this process as an adapter's engine."""

import asyncio
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import asdict
from enum import Enum
from typing import Any, Generic, TypeVar

from heddle.adapters.values import (
    ChatCall,
    ChatReply,
    EmbedCall,
    Embedded,
    Found,
    Ranked,
    RankedText,
    RerankCall,
    SearchCall,
    ToolRequest,
)
from heddle.app.chat.answer_form import AnswerForm, named
from heddle.app.chat.answer_text import AnswerText
from heddle.app.chat.call_text import CallText
from heddle.app.chat.llm_name import llm_name
from heddle.app.chat.messages import chat_turns
from heddle.app.chat.plain import TURNS, chat_workflow, drawn
from heddle.app.requests.call_identity import CallIdentity, calling
from heddle.app.reranking import ranking_of
from heddle.app.server import Server
from heddle.core.results import FinishReason, Vectors
from heddle.runtime.events import Answer, RequestEvent, RequestFailed
from heddle.runtime.handle import Handle
from heddle.runtime.receipt import Receipt

T = TypeVar("T")
S = TypeVar("S", Handle, Future[Vectors])


class InProcess:
    """Calls a server of this process.

    Args:
        server: carries the calls out; the caller closes it.
        tenant: whose documents and caches are used.
    """

    def __init__(self, server: Server, *, tenant: str = "") -> None:
        self.server, self.tenant = server, tenant

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InProcess) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[int, str]:
        return id(self.server), self.tenant

    @property
    def name(self) -> str:
        """What names the engine in messages."""
        return "the heddle.Server of this process"

    def chat(self, call: ChatCall, by: CallIdentity | None = None) -> Iterator[str | ChatReply]:
        """Have the LLM go on with a conversation."""
        chat = _Chat(call, self.server)
        handle = self._submit(chat.submitted(self.server, self.tenant), by)
        try:
            for event in handle:
                yield from chat.items(event)
        finally:
            _leave(handle)

    async def achat(
        self, call: ChatCall, by: CallIdentity | None = None
    ) -> AsyncIterator[str | ChatReply]:
        """Have the LLM go on with a conversation."""
        chat = _Chat(call, self.server)
        handle = await self._submit_aside(chat.submitted(self.server, self.tenant), by)
        try:
            async for event in handle:
                for item in chat.items(event):
                    yield item
        finally:
            _leave(handle)

    def search(self, call: SearchCall, by: CallIdentity | None = None) -> Found:
        """Find passages."""
        return _found(_waited(self._submit(self._searching(call), by)))

    async def asearch(self, call: SearchCall, by: CallIdentity | None = None) -> Found:
        """Find passages."""
        handle = await self._submit_aside(self._searching(call), by)
        return _found(await handle)

    def embed(self, call: EmbedCall, by: CallIdentity | None = None) -> Embedded:
        """Embed texts."""
        future = self._submit(self._embedding(call), by)
        try:
            return _embedded(future.result())
        finally:
            future.cancel()

    async def aembed(self, call: EmbedCall, by: CallIdentity | None = None) -> Embedded:
        """Embed texts."""
        future = await self._submit_aside(self._embedding(call), by)
        return _embedded(await asyncio.wrap_future(future))  # cancelling the one cancels the other

    def rerank(self, call: RerankCall, by: CallIdentity | None = None) -> Ranked:
        """Rank texts."""
        return self._ranked(_waited(self._submit(self._ranking(call), by)))

    async def arerank(self, call: RerankCall, by: CallIdentity | None = None) -> Ranked:
        """Rank texts."""
        handle = await self._submit_aside(self._ranking(call), by)
        return self._ranked(await handle)

    def cancel_run(self, run: str) -> None:
        """Ask for the end of all requests of a run, those of threads that wait included."""
        self.server.cancel_run(run, tenant=self.tenant)

    def _submit(self, submit: Callable[[], T], by: CallIdentity | None) -> T:
        with calling(by):
            return submit()

    async def _submit_aside(self, submit: Callable[[], S], by: CallIdentity | None) -> S:
        """Submit from a thread, as `submit` waits for the runtime's."""
        submission = _Submission(submit)
        try:
            with calling(by):
                return await asyncio.to_thread(submission.carry_out)
        except asyncio.CancelledError:
            submission.leave()
            raise

    def _searching(self, call: SearchCall) -> Callable[[], Handle]:
        return lambda: self.server.submit_search(
            call.query,
            topk=call.topk,
            hybrid=call.hybrid,
            rerank=call.rerank,
            where=call.where,
            tenant=self.tenant,
            deadline_s=call.deadline_s,
            priority=call.priority,
        )

    def _embedding(self, call: EmbedCall) -> Callable[[], Future[Vectors]]:
        return lambda: self.server.submit_embedding(
            list(call.texts),
            role=call.role,
            tenant=self.tenant,
            deadline_s=call.deadline_s,
            priority=call.priority,
        )

    def _ranking(self, call: RerankCall) -> Callable[[], Handle]:
        return lambda: self.server.submit_rerank(
            call.query,
            list(call.texts),
            tenant=self.tenant,
            deadline_s=call.deadline_s,
            priority=call.priority,
        )

    def _ranked(self, answer: Answer) -> Ranked:
        ranking = ranking_of(answer, self.server.config)
        texts = tuple(RankedText(one.index, one.relevance) for one in ranking.texts)
        return Ranked(texts, _receipt_json(ranking.receipt))


class _Chat:
    """One chat: from its call to the items of its stream."""

    def __init__(self, call: ChatCall, server: Server) -> None:
        self.call = call
        self._model = llm_name(server.config, server.plan)
        self.form = AnswerForm.of(
            list(call.tools) or None,
            call.tool_choice,
            call.response_format,
            is_parallel=call.parallel_tool_calls is not False,
        )
        words = AnswerText(chat_workflow(), is_raw=True)
        self.text = CallText(words, self.form) if self.form.may_call else words

    def submitted(self, server: Server, tenant: str) -> Callable[[], Handle]:
        """Return what admits the chat."""
        turns = self.form.shown(chat_turns(self.call.messages))
        options: Mapping[str, Any] = {
            **drawn(self.call.writing, server.config.temperature),
            **self.form.options,
            "tenant": tenant,
            "deadline_s": self.call.deadline_s,
            "priority": self.call.priority,
        }

        def submit() -> Handle:
            with named(self.form.field):
                return server.submit(chat_workflow(), {TURNS: turns}, **options)

        return submit

    def items(self, event: RequestEvent) -> Iterator[str | ChatReply]:
        """Yield what an event adds to the stream.

        Raises:
            HeddleError: the request has failed.
        """
        if isinstance(event, RequestFailed):
            raise event.error.with_traceback(None)
        new = self.text.take(event)
        if new:
            yield new
        if isinstance(event, Answer):
            yield self._reply(event)

    def _reply(self, answer: Answer) -> ChatReply:
        receipt = answer.receipt
        calls = tuple(
            ToolRequest(f"call_{secrets.token_hex(12)}", one.name, one.arguments)
            for one in self.text.calls
        )
        is_cut = answer.finish_reason is FinishReason.LENGTH
        return ChatReply(
            text=self.text.shown,
            tool_calls=calls,
            finish_reason="tool_calls" if calls else "length" if is_cut else "stop",
            prompt_tokens=receipt.prompt_tokens,
            cached_tokens=receipt.prompt_tokens_reused,
            completion_tokens=receipt.generated_tokens,
            model=self._model,
            receipt=_receipt_json(receipt),
        )


class _Submission(Generic[S]):
    """A request that is submitted in another thread, and may be left before it is.

    Args:
        submit: admits the request.
    """

    def __init__(self, submit: Callable[[], S]) -> None:
        self._submit: Callable[[], S] = submit
        self._lock = threading.Lock()
        self._admitted: S | None = None
        self._is_left = False

    def carry_out(self) -> S:
        """Admit the request; one that was left meanwhile is ended at once."""
        admitted = self._submit()
        with self._lock:
            self._admitted = admitted
            is_left = self._is_left
        if is_left:
            _leave(admitted)
        return admitted

    def leave(self) -> None:
        """End the request, now or when it is admitted."""
        with self._lock:
            self._is_left = True
            admitted = self._admitted
        if admitted is not None:
            _leave(admitted)


def _leave(admitted: Handle | Future[Vectors]) -> None:
    """End a request that its caller has left before its end."""
    if isinstance(admitted, Future):
        admitted.cancel()
    elif not admitted.is_done:
        admitted.cancel_soon()


def _waited(handle: Handle) -> Answer:
    try:
        return handle.result()
    finally:
        _leave(handle)


def _receipt_json(receipt: Receipt) -> dict[str, Any]:
    """Return a receipt as JSON has it: metadata of frameworks is written to files."""
    return asdict(receipt, dict_factory=lambda pairs: {name: _plain(one) for name, one in pairs})


def _plain(value: object) -> object:
    return value.value if isinstance(value, Enum) else value


def _found(answer: Answer) -> Found:
    return Found(answer.passages, _receipt_json(answer.receipt))


def _embedded(vectors: Vectors) -> Embedded:
    return Embedded(vectors.values.tolist(), vectors.tokens)
