"""One chunk's priming as a bulk request: a Searching in the corpus's own index, then a Priming."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from heddle.app.batch import Submit
from heddle.app.models.model_files import ModelFiles
from heddle.app.priming.plan import PREFIX
from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError
from heddle.core.kv_reuse import PrimedWith
from heddle.core.passages import Passage
from heddle.core.ports import Clock
from heddle.core.results import Primed, Vectors
from heddle.core.tasks import Priority
from heddle.corpus.store import CorpusStore
from heddle.runtime.handle import Handle
from heddle.workflow.compile import Draft, compile_draft
from heddle.workflow.nodes import PrimingNode
from heddle.workflow.workflow import Workflow

STORED: Final = "stored"
PATIENCE_S: Final = 3600.0


class PrimingServer(Protocol):
    """What priming needs of a server (heddle.app.server.Server)."""

    @property
    def config(self) -> ServerConfig:
        """Its configuration."""
        ...

    @property
    def generator(self) -> ModelFiles | None:
        """Its LLM's files, if it has one."""
        ...

    @property
    def store(self) -> CorpusStore | None:
        """Its corpus, if it has one."""
        ...

    @property
    def clock(self) -> Clock:
        """Times the run."""
        ...

    def submit(self, *request: Any, **how: Any) -> Handle:  # noqa: ANN401
        """Admit a request (a workflow and its inputs); see Server.submit."""
        ...


@dataclass(frozen=True, slots=True)
class NeighboursWanted:
    """How many chunks each chunk's KV is computed on top of, and which; 0 = its KV is raw."""

    count_max: int
    primed_with: PrimedWith = PrimedWith.PRECEDING

    @classmethod
    def of(cls, count_max: int, primed_with: PrimedWith | str) -> "NeighboursWanted":
        """Raises: ConfigError: `primed_with` is unknown."""
        try:
            return cls(count_max, PrimedWith(primed_with))
        except ValueError:
            known = ", ".join(repr(one.value) for one in PrimedWith)
            raise ConfigError(f"primed_with is {primed_with!r}; give one of {known}") from None


NO_NEIGHBOURS: Final = NeighboursWanted(0)


@dataclass(frozen=True, slots=True, eq=False)
class ChunkToPrime:
    """A chunk, and what its neighbours are found by: what precedes it, and its own vector.

    Shapes: vector [d] float32. `before` has one passage or none.
    """

    passage: Passage
    before: tuple[Passage, ...]
    vector: NDArray[np.float32]

    def request(
        self, submit: Callable[..., Handle], workflow: Workflow
    ) -> tuple[Submit, Mapping[str, object]]:
        """Return how Server.submit is asked for the chunk's KV, and with which inputs."""
        values: dict[str, object] = {
            "passage": self.passage,
            "before": self.before,
            "vectors": Vectors(self.vector[None]),
        }
        ask = partial(
            submit,
            workflow,
            priority=Priority.BULK,
            tenant=self.passage.tenant,
            deadline_s=PATIENCE_S,
        )
        return ask, {slot: values[slot] for slot in workflow.inputs}


def primed_by(handle: Handle) -> Primed:
    """Wait for a chunk's KV to lie on disk.

    Raises:
        InputError: the chunk is longer than the model's context.
        HeddleError: the request ended with another error.
    """
    primed = handle.result().slots[STORED]
    assert isinstance(primed, Primed), f"priming gave a {type(primed).__name__}"
    return primed


def priming_workflow(neighbours: NeighboursWanted, topk: int) -> Workflow:
    """Return the workflow of one chunk.

    Its inputs are `passage` and, for neighbours, `vectors` and perhaps `before`.
    """
    node = PrimingNode(
        id="prime",
        prefix=PREFIX,
        passage="passage",
        before="before",
        vectors="vectors",
        neighbours_max=neighbours.count_max,
        topk=topk,
        output=STORED,
        primed_with=neighbours.primed_with,
    )
    return compile_draft(
        Draft(
            name="prime",
            nodes={node.id: node},
            starts=(),
            ends=(),
            edges=(),
            branches=(),
            inputs=frozenset(node.reads),
            max_steps=1,
        )
    )
