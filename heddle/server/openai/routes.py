"""OpenAI's routes: chats, completions and models."""

from collections.abc import Mapping
from typing import Annotated

from fastapi import Depends, FastAPI, Request
from starlette.responses import Response

from heddle.app.chat.plain import TEXT, TURNS, chat_workflow, completion_workflow
from heddle.app.server import Server
from heddle.core.prompts.chat_turns import BareText
from heddle.core.texts.text_check import check_unicode
from heddle.server.event_stream import STREAMED
from heddle.server.json_body import body_schema
from heddle.server.openai.chat_request import ChatRequest
from heddle.server.openai.completion_request import CompletionRequest
from heddle.server.openai.desk import Desk, Order
from heddle.server.openai.models import ModelCatalogue, ModelKind
from heddle.server.openai.reply import ReplyShape
from heddle.server.openai.shared_request import read_shared
from heddle.server.wire import Json, encode_json
from heddle.workflow.workflow import Workflow


def add_openai(
    app: FastAPI, server: Server, workflows: Mapping[str, Workflow], *, inline_sources: bool
) -> None:
    """Add the routes to an application.

    Args:
        app: gets them.
        server: answers the requests.
        workflows: what clients may ask for, by name.
        inline_sources: whether texts end with their sources where a request doesn't say.
    """
    catalogue = ModelCatalogue(server, workflows)
    desk = Desk(server, workflows, inline_sources)

    async def read_chat(request: Request) -> ChatRequest:
        return await read_shared(request, ChatRequest)

    async def read_completion(request: Request) -> CompletionRequest:
        return await read_shared(request, CompletionRequest)

    @app.post(
        "/v1/chat/completions",
        response_model=None,
        responses=STREAMED,
        openapi_extra=body_schema(ChatRequest),
    )
    async def chat(asked: Annotated[ChatRequest, Depends(read_chat)], request: Request) -> Response:
        """Go on with a conversation, as OpenAI's endpoint of that name does.

        The model `corpus` answers the last message of the user from the corpus, `workflow:NAME`
        with that workflow, and a plain name is the LLM itself, which gets all messages and no
        passages. The reply also has `heddle`: `workflow`, `passages`, `quotes`, `nearest`,
        `ignored` and `receipt`, as those of /v1/ask; `message.annotations` cites the same sources.
        The LLM may be given `tools`; `response_format` holds what a model writes to a form.
        A client that disconnects cancels its request.
        """
        model = catalogue.find(asked.model, writes=True)
        form = asked.form
        order = Order(request, asked, model, ReplyShape.CHAT, form)
        if model.kind is ModelKind.LLM:
            turns = form.shown(asked.turns)
            return await desk.answer_plain(order, chat_workflow(), {TURNS: turns})
        return await desk.answer(order, asked.question, asked.system)

    @app.post(
        "/v1/completions",
        response_model=None,
        responses=STREAMED,
        openapi_extra=body_schema(CompletionRequest),
    )
    async def complete(
        asked: Annotated[CompletionRequest, Depends(read_completion)], request: Request
    ) -> Response:
        """Go on with a text, as OpenAI's endpoint of that name does.

        A plain name is the LLM, without its chat template. With `corpus` and `workflow:NAME` the
        prompt is the question.
        """
        model = catalogue.find(asked.model, writes=True)
        order = Order(request, asked, model, ReplyShape.COMPLETION)
        if model.kind is ModelKind.LLM:
            check_unicode(asked.text, "prompt")
            inputs = {TEXT: BareText(asked.text)}
            return await desk.answer_plain(order, completion_workflow(), inputs)
        return await desk.answer(order, asked.text, "")

    @app.get("/v1/models", response_model=None)
    async def models() -> Response:
        """Return the models that a request may name: `data`, each with its `id`."""
        offered = [catalogue.json(one) for one in catalogue.models.values()]
        return _reply({"object": "list", "data": offered})

    @app.get("/v1/models/{model:path}", response_model=None)
    async def model(model: str) -> Response:
        """Return one of the models; status 404: there is none of that name."""
        return _reply(catalogue.json(catalogue.find(model)))


def _reply(body: Json) -> Response:
    return Response(encode_json(body), media_type="application/json")
