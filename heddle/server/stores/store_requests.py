"""The bodies of requests about vector stores, and the queries of lists."""

from typing import Any, Final, Literal, Self

from fastapi import Request
from pydantic import Field, field_validator, model_validator

from heddle.core.errors import InputError
from heddle.corpus.vector_stores.document_names import FILE_KEY, STORE_KEY
from heddle.corpus.vector_stores.paging import PAGE_MAX, PageRequest
from heddle.corpus.vector_stores.records import Attributes
from heddle.server.json_body import OpenBody
from heddle.server.limits import whole_number

PAIRS_MAX: Final = 16
KEY_CHARS_MAX: Final = 64
VALUE_CHARS_MAX: Final = 512
NAME_CHARS_MAX: Final = 256
BATCH_FILES_MAX: Final = 500
QUERIES_MAX: Final = 8
PAGE_DEFAULT: Final = 20
RESULTS_MAX: Final = 50
OWN_KEYS: Final = frozenset({STORE_KEY, FILE_KEY})


def checked_pairs(given: dict[str, Any], what: str) -> dict[str, Any]:
    """Refuse too many pairs, and those that are too long or that Heddle uses itself."""
    if len(given) > PAIRS_MAX:
        raise ValueError(f"{what} has {len(given)} keys, more than {PAIRS_MAX}: leave some out")
    for key, value in given.items():
        if not 0 < len(key) <= KEY_CHARS_MAX or key in OWN_KEYS:
            own = " and ".join(sorted(OWN_KEYS))
            raise ValueError(
                f"{key!r:.70} can't be a key: it has 1 to {KEY_CHARS_MAX} characters, and "
                f"{own} are taken"
            )
        if isinstance(value, str) and len(value) > VALUE_CHARS_MAX:
            raise ValueError(f"the value of {key!r} has more than {VALUE_CHARS_MAX} characters")
    return given


class WithStrategy(OpenBody):
    """A body that may say how files are cut; the corpus has one way for all."""

    chunking_strategy: dict[str, object] | None = Field(
        default=None, description='only {"type": "auto"}: as the corpus cuts all its texts'
    )

    @field_validator("chunking_strategy")
    @classmethod
    def _only_auto(cls, value: dict[str, object] | None) -> dict[str, object] | None:
        if value is not None and value.get("type") != "auto":
            raise ValueError(
                'only {"type": "auto"} is done: heddle index --chunk-tokens says how a corpus is '
                "cut"
            )
        return value


class StoreChange(OpenBody):
    """The name and the metadata of a vector store."""

    name: str | None = Field(default=None, max_length=NAME_CHARS_MAX)
    metadata: dict[str, str] | None = Field(
        default=None, description="up to 16 texts by key, which are shown and not searched"
    )
    expires_after: object = Field(default=None, description="not done: stores stay")

    @field_validator("metadata")
    @classmethod
    def _few(cls, value: dict[str, str] | None) -> dict[str, str] | None:
        return None if value is None else checked_pairs(value, "metadata")

    @field_validator("expires_after")
    @classmethod
    def _stays(cls, value: object) -> object:
        if value is not None:
            raise ValueError("a vector store stays until it is deleted: leave it out")
        return value


class NewStore(StoreChange, WithStrategy):
    """A vector store to make, perhaps with files in it."""

    file_ids: list[str] = Field(
        default_factory=list, max_length=BATCH_FILES_MAX, description="files to put into it"
    )


class AttributesBody(OpenBody):
    """What is said of a file in a store."""

    attributes: dict[str, bool | int | float | str] | None = Field(
        default=None, description="up to 16 texts, numbers or booleans by key, for `filters`"
    )

    @field_validator("attributes")
    @classmethod
    def _few(
        cls, value: dict[str, bool | int | float | str] | None
    ) -> dict[str, bool | int | float | str] | None:
        return None if value is None else checked_pairs(value, "attributes")


class NewFile(AttributesBody, WithStrategy):
    """A file to put into a store."""

    file_id: str = Field(min_length=1, description="what POST /v1/files has returned")

    @property
    def files(self) -> dict[str, Attributes]:
        """The file with its attributes."""
        return {self.file_id: self.attributes or {}}


class NewBatch(AttributesBody, WithStrategy):
    """Files to put into a store together: `file_ids` with `attributes` of all, or `files`."""

    file_ids: list[str] | None = Field(default=None, max_length=BATCH_FILES_MAX)
    files: list[NewFile] | None = Field(default=None, max_length=BATCH_FILES_MAX)

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if bool(self.file_ids) == bool(self.files):
            raise InputError(
                "file_ids: name at least one file, in file_ids or in files", param="file_ids"
            )
        return self

    @property
    def by_id(self) -> dict[str, Attributes]:
        """The files with their attributes."""
        if self.files:
            return {one.file_id: one.attributes or {} for one in self.files}
        return dict.fromkeys(self.file_ids or (), self.attributes or {})


class RankingOptions(OpenBody):
    """How results are ranked: by meaning, as OpenAI's "none" does."""

    ranker: Literal["none", "auto", "default-2024-11-15"] | None = Field(
        default=None, description="ignored: results come by their score"
    )
    score_threshold: float = Field(
        default=0.0, ge=0, le=1, description="results with a lower score are left out"
    )
    hybrid_search: object = Field(default=None, description="not done")

    @field_validator("hybrid_search")
    @classmethod
    def _by_meaning(cls, value: object) -> object:
        if value is not None:
            raise ValueError("a vector store is searched by meaning: leave it out")
        return value


class StoreSearch(OpenBody):
    """A search in a vector store."""

    query: str | list[str] = Field(description="what to search for; several are searched at once")
    filters: dict[str, object] | None = Field(
        default=None, description="comparisons of attributes, joined by `and` and `or`"
    )
    max_num_results: int = Field(default=10, ge=1, le=RESULTS_MAX)
    ranking_options: RankingOptions = Field(default_factory=RankingOptions)
    rewrite_query: bool = Field(default=False, description="ignored: the query is taken as it is")

    @field_validator("query")
    @classmethod
    def _asks(cls, value: str | list[str]) -> str | list[str]:
        queries = [value] if isinstance(value, str) else value
        if not 1 <= len(queries) <= QUERIES_MAX or not all(one.strip() for one in queries):
            raise ValueError(f"give 1 to {QUERIES_MAX} queries with text in each")
        return value

    @property
    def queries(self) -> list[str]:
        """The queries, each once."""
        return [self.query] if isinstance(self.query, str) else list(dict.fromkeys(self.query))


def page_of(
    request: Request, *, limit_max: int = PAGE_MAX, limit_default: int = PAGE_DEFAULT
) -> PageRequest:
    """Return which part of a list a request asks for.

    Args:
        request: its query says so.
        limit_max: the most rows that it may ask for.
        limit_default: how many it gets where it doesn't say.

    Raises:
        InputError: a value can't be used; the message names it.
    """
    asked = request.query_params
    given, order = asked.get("limit", str(limit_default)), asked.get("order", "desc")
    limit = whole_number(given, limit_max)
    if limit is None:
        raise InputError(f"limit must be a number from 1 to {limit_max}, got {given!r:.40}")
    if order not in ("asc", "desc"):
        raise InputError(f"order must be asc or desc, got {order!r:.40}")
    return PageRequest(limit, asked.get("after"), asked.get("before"), order == "asc")
