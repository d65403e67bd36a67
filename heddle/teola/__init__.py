"""Teola's front end, by the names of its Listing 1; heddle's own names stay what they are. (ADR 35)

`Node >> Node` is a template of components, `Engine` and `OPT_Pass` are registries, an `APP` is a
template on registered engines. It becomes a Workflow on a Server: there is no second runtime.
"""

from heddle.teola.application import APP
from heddle.teola.engine import Engine
from heddle.teola.graph import Graph
from heddle.teola.pass_registry import OPT_Pass
from heddle.workflow.component import Component as Node

__all__ = ["APP", "Engine", "Graph", "Node", "OPT_Pass"]
