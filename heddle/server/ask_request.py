"""The body of POST /v1/ask."""

from typing import Final, Literal

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field

from heddle.core.search_scope import where_of
from heddle.server.json_body import read_json

TENANT_CHARS_MAX: Final = 256


class AskRequest(BaseModel):
    """A question and how it is to be answered. Unknown fields are refused.

    `deadline_s` counts from the arrival; `tenant` says whose request it is: requests of
    different tenants never share a prefix cache. `where` is the metadata that found documents
    must have: of several values of a key one is enough.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    question: str
    workflow: str = "oneshot"
    stream: bool = False
    deadline_s: float | None = Field(default=None, gt=0)
    priority: Literal["interactive", "normal", "bulk"] = "normal"
    tenant: str = Field(default="", max_length=TENANT_CHARS_MAX)
    where: dict[str, object] | None = None


async def read_ask(request: Request) -> AskRequest:
    """Read and check a request's body, as a FastAPI dependency; raises as `read_json` does."""
    asked = await read_json(request, AskRequest)
    where_of(asked.where or {})  # its message names the key and says what it may have
    return asked
