"""Documents over HTTP: POST and DELETE /v1/documents."""

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field

from heddle.app.indexing.documents import DocumentChange
from heddle.server.json_body import read_json
from heddle.server.limits import TENANT_CHARS_MAX
from heddle.server.wire import Json


class DocumentRequest(BaseModel):
    """A document to put into the corpus, with the fields of a line of JSONL.

    Unknown fields are refused.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    id: str = Field(min_length=1, description="its id among the tenant's documents")
    text: str = Field(description="text that is cut into chunks and found")
    title: str = Field(default="", description="stands before each chunk; empty = the id")
    tenant: str = Field(
        default="",
        max_length=TENANT_CHARS_MAX,
        description="tenant whose searches find it; empty = every search",
    )
    collection: str = Field(
        default="", description="documents whose chunks' KV may be computed with its chunks'"
    )
    metadata: dict[str, object] | None = Field(
        default=None, description="values by key, for `where`"
    )


async def read_document(request: Request) -> DocumentRequest:
    """Read and check a request's body, as a FastAPI dependency; raises as `read_json` does."""
    return await read_json(request, DocumentRequest)


def change_json(change: DocumentChange) -> Json:
    """Return what putting a document did."""
    return {
        "outcome": change.outcome.value,
        **change.embedded._asdict(),
        "revision": change.revision,
    }
