"""The body of POST /v1/ask."""

from typing import Self

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, model_validator

from heddle.app.request_documents import DOCUMENTS_MAX, GivenDocument
from heddle.app.request_options import PriorityWord
from heddle.app.server_settings import OptimizationsWord
from heddle.core.search_scope import where_of
from heddle.server.json_body import read_json
from heddle.server.limits import TENANT_CHARS_MAX
from heddle.workflow.ragraph import TOPK_MAX
from heddle.workflow.writing import (
    MAX_TOKENS_MAX,
    PROMPT_CHARS_MAX,
    SYSTEM_CHARS_MAX,
    TEMPERATURE_MAX,
)


class AskDocument(BaseModel):
    """A document that comes with a question."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    text: str = Field(description="text that is cut into chunks and searched")
    title: str = Field(default="", description="stands before each chunk")


class AskRequest(BaseModel):
    """A question, and the options of its request. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    question: str | None = Field(default=None, description="value of the workflow's input `query`")
    inputs: dict[str, object] = Field(
        default_factory=dict, description="values of the workflow's other inputs, by name"
    )
    workflow: str | None = Field(
        default=None,
        description="one of those that GET /v1/workflows names; null = quote, or oneshot where the "
        "server has a model that writes",
    )
    stream: bool = Field(default=False, description="answer with server-sent events")
    topk: int | None = Field(
        default=None,
        ge=1,
        le=TOPK_MAX,
        description="passages of each search; null = as the workflow has it",
    )
    hybrid: bool | None = Field(
        default=None,
        description="search by words (BM25) as well as by meaning; null = as the workflow does",
    )
    where: dict[str, object] | None = Field(
        default=None,
        description="metadata that found documents must have; of several values of a key one "
        "is enough",
    )
    documents: list[AskDocument] | None = Field(
        default=None,
        max_length=DOCUMENTS_MAX,
        description="documents to answer from, for workflows such as doc_qa_naive; only this "
        "request sees them, and nothing of them is kept",
    )
    tenant: str = Field(
        default="",
        max_length=TENANT_CHARS_MAX,
        description="searches find this tenant's documents and those without a tenant; tenants "
        "never share a prefix cache",
    )
    deadline_s: float | None = Field(
        default=None,
        gt=0,
        description="seconds from the arrival until the request fails; null = the server's default",
    )
    priority: PriorityWord = Field(default="normal", description="service class")
    optimizations: OptimizationsWord | None = Field(
        default=None,
        description="the most that this request may use; null = what the server allows",
    )
    kv_reuse: str | None = Field(
        default=None,
        description='how to reuse stored chunk KV, such as "fusionrag,0.15"; null = as the '
        "server does",
    )
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        le=MAX_TOKENS_MAX,
        description="most tokens of the answer; null = as the server does",
    )
    temperature: float | None = Field(
        default=None,
        ge=0,
        le=TEMPERATURE_MAX,
        description="sampling temperature of the answer; null = as the server does",
    )
    system: str | None = Field(
        default=None,
        min_length=1,
        max_length=SYSTEM_CHARS_MAX,
        description="text that says what the model is to be; null = as the server does",
    )
    prompt: str | None = Field(
        default=None,
        min_length=1,
        max_length=PROMPT_CHARS_MAX,
        description="template with {docs} and {input} in the place of the workflow's own; null = "
        "as the server does",
    )

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if self.question is None and not self.inputs:
            raise ValueError("give a question, or inputs")
        return self

    @property
    def values(self) -> str | dict[str, object]:
        """What `Server.submit` takes as inputs."""
        if not self.inputs and self.question is not None:
            return self.question
        question = {} if self.question is None else {"query": self.question}
        return {**self.inputs, **question}

    @property
    def given_documents(self) -> list[GivenDocument] | None:
        """What `Server.submit` takes as documents."""
        found = self.documents
        return None if found is None else [one.model_dump() for one in found]


async def read_ask(request: Request) -> AskRequest:
    """Read and check a request's body, as a FastAPI dependency; raises as `read_json` does."""
    asked = await read_json(request, AskRequest)
    where_of(asked.where or {})  # its message names the key and says what it may have
    return asked
