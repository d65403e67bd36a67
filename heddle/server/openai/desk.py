"""Runs the requests of OpenAI's API, and answers them in its shape."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from starlette.responses import Response

from heddle.app.chat.answer_form import FREE, AnswerForm, named
from heddle.app.chat.answer_text import AnswerText
from heddle.app.chat.call_text import CallText
from heddle.app.chat.plain import drawn
from heddle.app.server import Server
from heddle.core.errors import InputError
from heddle.runtime.events import Answer, RequestFailed
from heddle.server.event_stream import cancelled_with_client
from heddle.server.keys.access import TokenMeter
from heddle.server.openai.chunk_stream import ChunkStream
from heddle.server.openai.models import OfferedModel
from heddle.server.openai.reply import Reply, ReplyShape
from heddle.server.openai.shared_request import SharedRequest
from heddle.server.submitting import submit, workflow_named
from heddle.server.wire import encode_json
from heddle.workflow.nodes import GenerationNode
from heddle.workflow.workflow import Workflow


@dataclass(frozen=True, slots=True)
class Order:
    """A request that is to be answered.

    Args:
        request: of HTTP.
        body: its body, checked.
        model: the model that it names.
        shape: of the call.
        form: that the answer is to have.
    """

    request: Request
    body: SharedRequest
    model: OfferedModel
    shape: ReplyShape
    form: AnswerForm = FREE

    @property
    def has_sources_block(self) -> bool | None:
        """Whether the text is to end with its sources; None = as the server does.

        A text that is held to a form has no other behind it.

        Raises:
            InputError: both are asked for.
        """
        wanted = self.body.heddle.inline_sources
        if self.form.constraint is None:
            return wanted
        if wanted:
            raise InputError(
                f"heddle.inline_sources: {self.form.field} leaves no place for sources in the "
                "text: leave one of the two out",
                param="heddle.inline_sources",
            )
        return False


@dataclass(frozen=True, slots=True)
class Desk:
    """Runs requests and answers them.

    Args:
        server: does the work.
        workflows: what clients may ask for, by name.
        inline_sources: whether texts end with their sources where a request doesn't say.
    """

    server: Server
    workflows: Mapping[str, Workflow]
    inline_sources: bool

    async def answer_plain(
        self, order: Order, workflow: Workflow, inputs: Mapping[str, object]
    ) -> Response:
        """Answer with the LLM alone.

        Raises:
            InputError: the request has inputs of a workflow.
        """
        heddle = order.body.heddle
        if heddle.inputs:
            raise InputError(
                f"heddle.inputs: {order.model.id!r} is the LLM and has none: name a workflow",
                param="heddle.inputs",
            )
        options = {**heddle.options, **drawn(order.body.writing, self.server.config.temperature)}
        words = AnswerText(workflow, is_raw=True)
        text = CallText(words, order.form) if order.form.may_call else words
        return await self._replied(order, workflow, inputs, options, self._reply(order, text))

    async def answer(self, order: Order, question: str, system: str) -> Response:
        """Answer with a workflow.

        Where no model writes its answer, what says how one writes is ignored, and named in the
        reply: clients send a temperature and a system message with each request. So are tools
        that the model may call.
        """
        workflow = workflow_named(order.model.workflow, self.workflows)
        writing = {**order.body.writing, **({"system": system} if system else {})}
        order.form.check_without_call(order.model.id)
        order.form.check_writer(order.model.id, writes=_writes(workflow))
        ignored = (*(() if _writes(workflow) else writing), *order.form.unused)
        chosen = drawn(writing, self.server.config.temperature) if _writes(workflow) else {}
        options = {**order.body.heddle.options, **chosen}
        inputs = {**order.body.heddle.inputs, "query": question}
        reply = self._reply(order, AnswerText(workflow, is_raw=False), ignored)
        return await self._replied(order, workflow, inputs, options, reply)

    async def _replied(
        self,
        order: Order,
        workflow: Workflow,
        inputs: Mapping[str, object],
        options: Mapping[str, Any],
        reply: Reply,
    ) -> Response:
        """Admit a request, and wait for its answer or stream it."""
        with named(order.form.field):
            handle = await submit(self.server, workflow, inputs, {**options, **order.form.options})
        meter = TokenMeter(order.request.scope)
        meter.admit(order.body)
        if order.body.stream:
            return ChunkStream(handle, reply, meter.take)
        answer: Answer | None = None
        async with cancelled_with_client(handle, order.request.receive):
            async for event in handle:
                if isinstance(event, RequestFailed):
                    raise event.error
                reply.text.take(event)
                answer = event if isinstance(event, Answer) else answer
        assert answer is not None, "a request ends with its answer or an error"
        meter.take(answer)
        return Response(encode_json(reply.whole(answer)), media_type="application/json")

    def _reply(
        self, order: Order, text: AnswerText | CallText, ignored: tuple[str, ...] = ()
    ) -> Reply:
        wanted = order.has_sources_block
        return Reply(
            order.shape,
            order.model.id,
            order.model.workflow,
            text,
            ignored,
            has_sources_block=self.inline_sources if wanted is None else wanted,
            has_usage_chunk=order.body.has_usage_chunk,
        )


def _writes(workflow: Workflow) -> bool:
    """Whether a model writes the answer, so that a request may say how."""
    return any(isinstance(workflow.nodes[key], GenerationNode) for key in workflow.outputs)
