"""Teola's front end, by the names of its Listing 1; heddle's own names stay what they are. (ADR 35)

`Node >> Node` is a template of components, `Engine` and `OPT_Pass` are registries, an `APP` is a
template on registered engines. It becomes a Workflow on a Server: there is no second runtime.

Example:
    from heddle.teola import APP, Engine, Graph, Node, OPT_Pass

    Engine("LLM", executable="reader")
    Engine("Searching", executable="corpus")
    search = Node("Embedding", config={"topk": 1})
    answer = Node("LLM", config={"prompt": "{docs}Question: {query}", "role": "answer"})
    search >> ... >> answer
    with APP.init() as app:
        app.update_template([search, ...])
        graph = Graph.optimize(app, "Who founded Oak Mill?", {"deadline_s": 30}, OPT_Pass)
        print(graph.schedule().result().text)  # Ann Reed
"""

from heddle.teola.application import APP
from heddle.teola.engine import Engine
from heddle.teola.graph import Graph
from heddle.teola.pass_registry import OPT_Pass
from heddle.workflow.component import Component as Node

__all__ = ["APP", "Engine", "Graph", "Node", "OPT_Pass"]
