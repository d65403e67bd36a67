"""The body of POST /v1/search."""

from typing import ClassVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field

from heddle.app.request_options import PriorityWord
from heddle.core.search_scope import where_of
from heddle.server.json_body import read_json
from heddle.server.limits import TENANT_CHARS_MAX
from heddle.workflow.ragraph import DEFAULT_TOPK, TOPK_MAX


class SearchRequest(BaseModel):
    """A query, and the options of its search. Unknown fields are refused."""

    other_names: ClassVar[dict[str, str]] = {"question": "query"}  # as /v1/ask calls it

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    query: str = Field(min_length=1, description="what to search for")
    topk: int = Field(
        default=DEFAULT_TOPK, ge=1, le=TOPK_MAX, description="how many passages, at most"
    )
    hybrid: bool = Field(default=False, description="search by words (BM25) as well as by meaning")
    rerank: bool = Field(
        default=False,
        description="have a model read four times as many passages, and keep the best; the server "
        "needs a model that ranks",
    )
    where: dict[str, object] | None = Field(
        default=None,
        description="metadata that found documents must have; of several values of a key one "
        "is enough",
    )
    tenant: str = Field(
        default="",
        max_length=TENANT_CHARS_MAX,
        description="search this tenant's documents and those without a tenant",
    )
    deadline_s: float | None = Field(
        default=None,
        gt=0,
        description="seconds from the arrival until the search fails; null = the server's default",
    )
    priority: PriorityWord = Field(default="normal", description="service class")


async def read_search(request: Request) -> SearchRequest:
    """Read and check a request's body, as a FastAPI dependency; raises as `read_json` does."""
    asked = await read_json(request, SearchRequest)
    where_of(asked.where or {})  # its message names the key and its allowed values
    return asked
