"""Optimizer passes as Teola registers them: by name, for applications to come. (Teola §3.2)"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from heddle.core.errors import ConfigError
from heddle.graph.pgraph import PGraph
from heddle.passes.runner import GraphPass

Rewrite = Callable[[PGraph], PGraph | None]


@dataclass(frozen=True, slots=True)
class FunctionPass(GraphPass):
    """A graph pass that is a function."""

    rewrite: Rewrite
    name: str = "function"

    def apply(self, graph: PGraph) -> PGraph | None:
        """Return what the function makes of a graph; None = nothing changes."""
        return self.rewrite(graph)


@dataclass(slots=True)
class PassRegistry:
    """Passes by name, in the order in which they were registered.

    Mutates: `register` adds to `passes`; the newest of a name counts.
    """

    passes: dict[str, GraphPass] = field(default_factory=dict)

    def register(self, name: str, rewrite: Rewrite) -> None:
        """Add a pass: a function of a PGraph that returns one, or None where nothing changes.

        Raises:
            ConfigError: it is no function.
        """
        if not callable(rewrite):
            raise ConfigError(f"OPT_Pass.register: {name!r} must be a function of a PGraph")
        self.passes[name] = FunctionPass(rewrite, name)


OPT_Pass: Final = PassRegistry()
