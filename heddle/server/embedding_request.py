"""The body of POST /v1/embeddings, as OpenAI's clients send it, and its reply."""

import base64
from typing import Final, Literal

import numpy as np
from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, field_validator

from heddle.app.request_options import PriorityWord, RoleWord
from heddle.app.server_settings import LongTextsWord
from heddle.core.results import Vectors
from heddle.server.json_body import read_json
from heddle.server.limits import TENANT_CHARS_MAX
from heddle.server.wire import Json

TEXTS_MAX: Final = 2_048  # as OpenAI's


class EmbeddingRequest(BaseModel):
    """Texts to embed. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    input: str | list[str] = Field(description="one text, or several")
    model: str = Field(default="", description="ignored: a server has one embedder")
    encoding_format: Literal["float", "base64"] | None = Field(  # LiteLLM sends null
        default="float", description="how the reply writes the vectors; null = float"
    )
    dimensions: int | None = Field(
        default=None, gt=0, description="length of the vectors, if the model allows a shorter one"
    )
    user: str | None = Field(default=None, description="ignored")
    role: RoleWord = Field(
        default="plain", description="prompt of the model that stands before them"
    )
    long_texts: LongTextsWord | None = Field(
        default=None, description="for texts longer than the model's limit; null = as the server"
    )
    deadline_s: float | None = Field(
        default=None,
        gt=0,
        description="seconds until the vectors are worthless; null = the server's default",
    )
    priority: PriorityWord | None = Field(
        default=None, description="service class; null = bulk, or normal with a deadline_s"
    )
    tenant: str = Field(
        default="",
        max_length=TENANT_CHARS_MAX,
        description="tenants never share cached vectors",
    )

    @field_validator("input", mode="before")
    @classmethod
    def _no_token_ids(cls, value: object) -> object:
        first = value[0] if isinstance(value, list) and value else None
        if isinstance(first, int | list):
            # LangChain sends ids of OpenAI's tokenizer, which mean other words to this model.
            raise ValueError(
                "token ids are of another model's tokenizer: send texts "
                "(LangChain: OpenAIEmbeddings(check_embedding_ctx_length=False))"
            )
        return value

    @field_validator("input")
    @classmethod
    def _not_too_many(cls, value: str | list[str]) -> str | list[str]:
        if isinstance(value, list) and len(value) > TEXTS_MAX:
            raise ValueError(f"{len(value)} texts are more than {TEXTS_MAX}: send several requests")
        return value

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts, in their order."""
        return (self.input,) if isinstance(self.input, str) else tuple(self.input)


async def read_embedding(request: Request) -> EmbeddingRequest:
    """Read and check a request's body, as a FastAPI dependency; raises as `read_json` does."""
    return await read_json(request, EmbeddingRequest)


def embeddings_json(asked: EmbeddingRequest, vectors: Vectors, model: str) -> Json:
    """Return vectors as OpenAI does; `truncated` and `windowed` count texts that were too long."""
    # A single pass over all values: "<f4" is what OpenAI's clients decode.
    values = np.ascontiguousarray(vectors.values, "<f4")
    encoded = (
        [base64.b64encode(row.tobytes()).decode() for row in values]
        if asked.encoding_format == "base64"
        else values.tolist()
    )
    return {
        "object": "list",
        "model": model,
        "data": [
            {"object": "embedding", "index": index, "embedding": embedding}
            for index, embedding in enumerate(encoded)
        ],
        "usage": {"prompt_tokens": vectors.tokens, "total_tokens": vectors.tokens},
        "truncated": vectors.truncated,
        "windowed": vectors.windowed,
    }
