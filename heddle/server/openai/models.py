"""The models that a server offers by OpenAI's API: its LLM, its embedder, and its workflows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cached_property
from typing import Final

from heddle.app.chat.llm_name import llm_name
from heddle.app.server import Server
from heddle.server.openai.api_error import ApiError
from heddle.server.wire import Json
from heddle.workflow.workflow import Workflow

CORPUS: Final = "corpus"
OF_WORKFLOW: Final = "workflow:"
OWNER: Final = "heddle"
SHOWN_CHARS: Final = 80
NOT_FOUND: Final = 404


class ModelKind(Enum):
    """What a model is asked for."""

    LLM = "llm"
    EMBEDDER = "embedder"
    WORKFLOW = "workflow"


@dataclass(frozen=True, slots=True)
class OfferedModel:
    """A model by its name.

    Args:
        id: the name that clients ask for.
        kind: the work that it does.
        workflow: the name of the workflow that is run; empty = none.
    """

    id: str
    kind: ModelKind
    workflow: str = ""


class ModelCatalogue:
    """All that a server offers.

    Args:
        server: has the LLM, the embedder and the corpus.
        workflows: what clients may ask for, by name.
    """

    def __init__(self, server: Server, workflows: Mapping[str, Workflow]) -> None:
        self._server = server
        self._workflows = workflows
        self._created = int(datetime.now(UTC).timestamp())

    @cached_property
    def models(self) -> dict[str, OfferedModel]:
        """The models by name; where two have one name, the first of them."""
        found: dict[str, OfferedModel] = {}
        for model in self._offered():
            found.setdefault(model.id, model)
        return found

    def find(self, name: str, *, writes: bool = False) -> OfferedModel:
        """Return the model of a name.

        Args:
            name: as a client asked for it.
            writes: whether it is to write a text.

        Raises:
            ApiError: there is none (404), or it writes none (400).
        """
        found = self.models.get(name)
        if found is None:
            known = ", ".join(self.models) or "none"
            raise ApiError(
                NOT_FOUND,
                f"model: {name[:SHOWN_CHARS]!r} is not offered here; there are {known}",
                param="model",
                code="model_not_found",
            )
        if writes and found.kind is ModelKind.EMBEDDER:
            raise ApiError(
                400,
                f"model: {name!r} embeds texts: ask it by /v1/embeddings",
                param="model",
                code="unsupported_model",
            )
        return found

    def json(self, model: OfferedModel) -> Json:
        """Return a model as OpenAI describes one, with its `kind`."""
        return {
            "id": model.id,
            "object": "model",
            "created": self._created,
            "owned_by": OWNER,
            "kind": model.kind.value,
        }

    def _offered(self) -> Iterator[OfferedModel]:
        server = self._server
        default = server.config.default_workflow
        if server.store is not None and default in self._workflows:
            yield OfferedModel(CORPUS, ModelKind.WORKFLOW, default)
        if llm := llm_name(server.config, server.plan):
            yield OfferedModel(llm, ModelKind.LLM)
        if server.embedder_name:
            yield OfferedModel(server.embedder_name, ModelKind.EMBEDDER)
        for name in self._workflows:
            yield OfferedModel(f"{OF_WORKFLOW}{name}", ModelKind.WORKFLOW, name)
