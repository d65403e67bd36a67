"""The body of POST /v1/rerank, as Cohere's and Jina's clients send it, and its reply."""

from secrets import token_hex
from typing import Final, Self

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, model_validator

from heddle.app.request_options import PriorityWord
from heddle.app.reranking import TEXTS_MAX, Ranking
from heddle.core.errors import InputError
from heddle.server.json_body import OpenBody, read_open
from heddle.server.limits import TENANT_CHARS_MAX
from heddle.server.wire import Json

DOC_TOKENS_MIN: Final = 4096  # Cohere's default, which its users' libraries send with each call
# What other servers do with a document before they read it. Here each goes whole to the model.
REFUSED: Final = (
    "max_chunks_per_doc",
    "rank_fields",
    "relevant_spans",
    "instruction",
    "truncate_prompt_tokens",
    "max_tokens_per_query",
)


class RerankDocument(BaseModel):
    """A document as an object; other fields than its text are ignored."""

    model_config = ConfigDict(strict=True, frozen=True)

    text: str = Field(description="what is read")


class RerankRequest(OpenBody):
    """A query, and the documents to rank by it. Fields that no API defines are ignored."""

    query: str = Field(min_length=1, description="what the documents are to answer")
    documents: list[str | RerankDocument] = Field(
        min_length=1, max_length=TEXTS_MAX, description="texts, or objects with `text`"
    )
    model: str = Field(default="", description="ignored: a server has one model that ranks")
    top_n: int | None = Field(
        default=None, ge=1, description="how many results, the best ones; null = all"
    )
    return_documents: bool | None = Field(
        default=None,
        description="whether results show their documents; null = not at /v2/rerank, else yes",
    )
    max_tokens_per_doc: int | None = Field(
        default=None,
        description=f"ignored: documents go whole to the model; below {DOC_TOKENS_MIN} it is "
        "refused",
    )
    deadline_s: float | None = Field(
        default=None,
        gt=0,
        description="seconds from the arrival until the request fails; null = the server's default",
    )
    priority: PriorityWord | int = Field(
        default="normal", description="service class; Cohere's numbers are ignored"
    )
    tenant: str = Field(
        default="", max_length=TENANT_CHARS_MAX, description="whose documents they are"
    )

    @model_validator(mode="after")
    def _does_all_it_says(self) -> Self:
        for name in REFUSED:
            if (self.model_extra or {}).get(name) is not None:
                raise _unsupported(name, "leave it out")
        if self.max_tokens_per_doc is not None and self.max_tokens_per_doc < DOC_TOKENS_MIN:
            raise _unsupported(
                "max_tokens_per_doc", f"leave it out, or give {DOC_TOKENS_MIN} or more"
            )
        return self

    @property
    def texts(self) -> list[str]:
        """The documents' texts."""
        return [one if isinstance(one, str) else one.text for one in self.documents]

    @property
    def priority_word(self) -> PriorityWord:
        """The service class."""
        return "normal" if isinstance(self.priority, int) else self.priority


def _unsupported(name: str, instead: str) -> InputError:
    return InputError(
        f"{name}: documents go whole to the model here: {instead}",
        param=name,
        code="unsupported_parameter",
    )


async def read_rerank(request: Request) -> RerankRequest:
    """Read and check a request's body, as a FastAPI dependency; raises as `read_json` does."""
    return await read_open(request, RerankRequest)


def ranking_json(asked: RerankRequest, ranking: Ranking, *, shows_documents: bool) -> Json:
    """Return a ranking in the shape that Cohere, Jina and vLLM share."""
    shows = shows_documents if asked.return_documents is None else asked.return_documents
    tokens = ranking.receipt.tokens_read
    return {
        "id": f"rerank-{token_hex(12)}",
        "model": asked.model,
        "results": [
            {
                "index": one.index,
                "relevance_score": one.relevance,
                **({"document": {"text": one.text}} if shows else {}),
            }
            for one in ranking.texts[: asked.top_n]
        ],
        "meta": {
            "api_version": {"version": "2"},
            "billed_units": {"search_units": 1},
            "tokens": {"input_tokens": tokens, "output_tokens": 0},
        },
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
