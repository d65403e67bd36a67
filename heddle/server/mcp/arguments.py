"""What the tools of MCP take: models that check a call, and whose JSON schemas clients see."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from heddle.core.errors import InputError
from heddle.server.bodies.problems import plain_words
from heddle.workflow.ragraph import DEFAULT_TOPK

PASSAGES_MAX: Final = 50  # an assistant reads them all
DOCUMENTS_DEFAULT: Final = 100
DOCUMENTS_MAX: Final = 1000

How = Literal["meaning", "words", "both"]
Where = Annotated[
    dict[str, Any] | None,
    Field(
        description="Search only documents with this metadata: for each key a value, or a list of "
        "values of which one is enough. Leave it out unless you know the keys."
    ),
]


class ToolArguments(BaseModel):
    """The arguments of one tool."""

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def schema_for_clients(cls) -> dict[str, Any]:
        """Return the JSON schema, without the words that pydantic adds for itself."""
        schema = cls.model_json_schema()
        fields = {name: _plain(field) for name, field in schema["properties"].items()}
        return {**_plain(schema), "properties": fields}

    @classmethod
    def of(cls, given: dict[str, Any] | None) -> Self:
        """Return the arguments of a call, checked.

        Raises:
            InputError: some can't be used; the message names each of them.
        """
        try:
            return cls.model_validate(given or {})
        except ValidationError as error:
            raise InputError("; ".join(map(_problem, error.errors()))) from None


class SearchArguments(ToolArguments):
    """Those of `search`."""

    query: str = Field(min_length=1, description="What to search for, in plain words.")
    topk: int = Field(
        DEFAULT_TOPK, ge=1, le=PASSAGES_MAX, description="How many passages to return."
    )
    how: How = Field(
        "meaning",
        description="meaning finds passages that say the same in other words; words finds exact "
        "terms, names and codes (BM25); both joins the two.",
    )
    where: Where = None


class AskArguments(ToolArguments):
    """Those of `ask`."""

    question: str = Field(
        min_length=1, description="One question that can be understood by itself."
    )
    topk: int | None = Field(
        None,
        ge=1,
        le=PASSAGES_MAX,
        description="How many passages to answer from; leave it out for the usual number.",
    )
    where: Where = None


class ListArguments(ToolArguments):
    """Those of `list_documents`."""

    contains: str = Field(
        "", description="List only documents whose title, file or id contains this text."
    )
    offset: int = Field(0, ge=0, description="How many documents to leave out at the beginning.")
    limit: int = Field(
        DOCUMENTS_DEFAULT, ge=1, le=DOCUMENTS_MAX, description="How many documents to return."
    )


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in schema.items() if name != "title"}
    if "properties" in kept:  # its description is the docstring, which no client needs
        kept.pop("description", None)
    return kept


def _problem(error: Any) -> str:  # noqa: ANN401 - pydantic's ErrorDetails
    name = ".".join(map(str, error["loc"])) or "the arguments"
    if error["type"] == "missing":
        return f"{name} is missing"
    if error["type"] == "extra_forbidden":
        return f"{name} is no argument of this tool"
    return f"{name}: {plain_words(error)}, got {error['input']!r:.40}"
