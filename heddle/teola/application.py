"""An application as Teola writes it: a template on registered engines, which becomes an App."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import EllipsisType, TracebackType
from typing import Self

from heddle.app.application import App
from heddle.app.server import Server
from heddle.core.errors import ConfigError, WorkflowError
from heddle.passes.runner import GraphPass
from heddle.teola.engine import REGISTERED, Engine, server_settings, tools_of
from heddle.workflow.component import Component
from heddle.workflow.component_template import template_graph
from heddle.workflow.workflow import Workflow


@dataclass(slots=True)
class APP:
    """An application that is being written; `served` makes an App of it.

    Args:
        engines: what its components may name.

    Mutates: `update_template` replaces the template; the first use starts a server, which `close`
    ends.
    """

    engines: dict[str, Engine]
    _workflow: Workflow | None = None
    _server: Server | None = None
    _passes: tuple[GraphPass, ...] = field(default=(), repr=False)

    @classmethod
    def init(cls) -> Self:
        """Begin an application on the engines that are registered by now."""
        return cls(dict(REGISTERED))

    def update_template(self, components: Sequence[Component | EllipsisType]) -> None:
        """Set the components; `...` stands for all that they are joined to.

        Raises:
            WorkflowError: they are no workflow; the message names the component.
        """
        self._workflow = template_graph(components, tools_of(self.engines), "app").compile()

    def compile(self) -> Workflow:
        """Return the template as a workflow.

        Raises:
            WorkflowError: there is none yet.
        """
        if self._workflow is None:
            raise WorkflowError("this APP has no template yet: call update_template first")
        return self._workflow

    def served(self, passes: Sequence[GraphPass] = ()) -> App:
        """Return the application on its server, which is started by the first call.

        Raises:
            ConfigError, InputError: the engines can't be started, or run with other passes.
        """
        workflow = self.compile()
        if self._server is None:
            settings = server_settings(self.engines)
            self._server = Server(**settings, passes=tuple(passes))
            self._passes = tuple(passes)
        elif tuple(passes) != self._passes:
            names = ", ".join(one.name for one in self._passes) or "none"
            raise ConfigError(f"this APP runs with the passes {names}: close it to change them")
        return App(self._server, workflow)

    def close(self) -> None:
        """End the server, if there is one. Can be called twice."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
