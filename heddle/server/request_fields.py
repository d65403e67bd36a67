"""What a request may say beside its question, in each body that asks one."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from heddle.app.request_options import PriorityWord
from heddle.app.requests.documents import DOCUMENTS_MAX, GivenDocument
from heddle.app.server_settings import OptimizationsWord
from heddle.server.limits import TENANT_CHARS_MAX
from heddle.workflow.ragraph import TOPK_MAX


class AskDocument(BaseModel):
    """A document that comes with a question."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    text: str = Field(description="text that is cut into chunks and searched")
    title: str = Field(default="", description="stands before each chunk")


class RequestFields(BaseModel):
    """The options of a request. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    inputs: dict[str, object] = Field(
        default_factory=dict, description="values of the workflow's other inputs, by name"
    )
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

    answer_cache: bool | None = Field(
        default=None,
        description="false = no earlier answer is taken, and this one is not kept; null = as the "
        "server does",
    )

    @property
    def given_documents(self) -> list[GivenDocument] | None:
        """What `Server.submit` takes as documents."""
        found = self.documents
        return None if found is None else [one.model_dump() for one in found]

    @property
    def options(self) -> dict[str, Any]:
        """What `Server.submit` takes of these fields as keywords."""
        return {
            "topk": self.topk,
            "hybrid": self.hybrid,
            "where": self.where,
            "documents": self.given_documents,
            "tenant": self.tenant,
            "deadline_s": self.deadline_s,
            "priority": self.priority,
            "optimizations": self.optimizations,
            "kv_reuse": self.kv_reuse,
            "answer_cache": self.answer_cache,
        }
