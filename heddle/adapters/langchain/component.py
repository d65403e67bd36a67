"""What Heddle's components of LangChain share: the engine, and where a call is made."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any, Final, Protocol

from langchain_core.runnables.config import var_child_runnable_config
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from heddle.adapters.engine import Engine, engine_of
from heddle.adapters.run import Place, current_place
from heddle.app.request_options import PriorityWord
from heddle.core.tasks import Priority

ACTIVE: Final = "__heddle_run"  # in `configurable`; such names enter no checkpoint


class ActiveRun(Protocol):
    """A wrapped program's run, as it travels in the configuration of its calls."""

    @property
    def stand_ins(self) -> Mapping[int, object]:
        """The components of Heddle that answer in the place of others, by the ids of those."""
        ...

    def place_of(self, node: str) -> Place:
        """Return where a call of a node is made."""
        ...


class Component(BaseModel):
    """The fields of every component of Heddle.

    Args:
        engine: a `heddle.Server`, or the address of a running one.
        api_key: the key for a server by its address.
        tenant: whose documents and caches are used.
        deadline_s: seconds until an answer is worthless; None = as the server has it.
        priority: the service class.
    """

    model_config = ConfigDict(
        arbitrary_types_allowed=True, ignored_types=(cached_property,), extra="forbid"
    )

    engine: Any = Field(exclude=True, repr=False)
    api_key: SecretStr = SecretStr("")
    tenant: str = ""
    deadline_s: float | None = Field(default=None, gt=0)
    priority: PriorityWord = "normal"

    @cached_property
    def heddle(self) -> Engine:
        """The engine that carries the calls out.

        Raises:
            ConfigError: `engine` names none.
        """
        key = self.api_key.get_secret_value()
        return engine_of(self.engine, api_key=key, tenant=self.tenant)

    @property
    def service_class(self) -> Priority:
        """The class as the engine has it."""
        return Priority[self.priority.upper()]


_surrounding: ContextVar[ActiveRun | None] = ContextVar("heddle_active_run", default=None)


@contextmanager
def within(active: ActiveRun) -> Iterator[None]:
    """Make it the run of what this block calls, also of tasks and threads that it makes.

    Not for a generator that yields within the block: its caller would be in that run, too.
    """
    token = _surrounding.set(active)
    try:
        yield
    finally:
        _surrounding.reset(token)


def active_run(config: Mapping[str, Any] | None = None) -> ActiveRun | None:
    """Return the wrapped program's run that calls; None = none does.

    LangChain hands its configuration to all that a node calls. Where a node gives a chain or a
    graph a `configurable` of its own, such as a `thread_id`, that takes the place of the node's; a
    context variable then knows the run.

    Args:
        config: what a call is given; None = nothing.
    """
    around = var_child_runnable_config.get() or {}
    held = [(one.get("configurable") or {}).get(ACTIVE) for one in (config or {}, around)]
    active: ActiveRun | None = next((one for one in held if one is not None), _surrounding.get())
    return active


def place_here() -> Place | None:
    """Return where a call is made: a wrapped graph's node, or what Heddle's own context says."""
    active = active_run()
    if active is None:
        return current_place()
    config = var_child_runnable_config.get() or {}
    return active.place_of(node_of(config.get("metadata") or {}))


def node_of(metadata: Any) -> str:
    """Return the node of LangGraph that calls, behind the names of the graphs that it is in."""
    namespace = str(metadata.get("langgraph_checkpoint_ns", ""))
    names = [part.partition(":")[0] for part in namespace.split("|")]
    found = ".".join(name for name in names if name and not name.isdecimal())
    return found or str(metadata.get("langgraph_node", ""))
