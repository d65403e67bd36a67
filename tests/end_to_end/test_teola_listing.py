"""Listing 1 of the Teola paper, word for word but for its three imports, on a real server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from heddle.teola import APP, Engine, Graph, Node, OPT_Pass
from heddle.teola.engine import REGISTERED

LISTING = """\
# Register executor engines (e.g. LLM).
LLM=Engine("LLM",executable=llm_exec ,config=config_llm ,
    resource ={"GPU":2}, instances =2)
# Register optimization passes.
OPT_Pass.register("pipelining",pipline_pass)
app=APP.init() # Init an application
# Resiger template components with specification
query_expand=Node("LLM",in_kwargs ,out_kwargs ,
    anno="splitable",config=config_expand)
embedding=Node("Embedding",in_kwargs ,out_kwargs ,
    anno="batchable",config=config_embed)
# Omit other components ...
generation=Node("LLM",in_kwargs ,out_kwargs ,
    anno=None ,config=config_gen)
# Declare the dependency.
query_expand >>embedding >>... >>generation
# Update the app's workflow template.
app.update_template ([ query_expand ,...])
# Construct and optimize graph based on query and config.
e_graph=Graph.optimize(app ,query ,config ,OPT_Pass)
# Sumbit to runtime and schedule.
e_graph.schedule ()
"""


@pytest.fixture
def namespace(model: Path, corpus: Path) -> Iterator[dict[str, object]]:
    """What the listing takes as given: engines, passes, configurations, a query."""
    seen: list[object] = []
    Engine("Searching", executable=corpus)
    given: dict[str, object] = {
        "llm_exec": model,
        "config_llm": {"engine_host": "inline", "dtype": "float32", "kv_cache_bytes": 32 << 20},
        "pipline_pass": seen.append,  # it returns None: nothing changes
        "in_kwargs": {},
        "out_kwargs": {},
        "config_expand": {"prompt": "List two questions behind {query}", "max_tokens": 12},
        "config_embed": {"topk": 2},
        "config_gen": {"prompt": "Answer {query} from {docs}", "max_tokens": 8},
        "query": "Who is the keeper of Rock 3?",
        "config": {"deadline_s": 60.0},
        "seen": seen,
        **{"APP": APP, "Engine": Engine, "Graph": Graph, "Node": Node, "OPT_Pass": OPT_Pass},
    }
    yield given
    REGISTERED.clear()
    OPT_Pass.passes.clear()
    if "app" in given:
        given["app"].close()  # type: ignore[attr-defined]


def test_listing_1_runs_word_for_word(namespace: dict[str, object]) -> None:
    lines = LISTING.splitlines()
    exec(compile("\n".join(lines[:-1]), "listing 1", "exec"), namespace)
    answer = eval(lines[-1], namespace).result()
    spans = {(span.node, span.kind.value) for span in answer.receipt.spans}
    assert spans == {
        ("llm", "prefilling"),
        ("llm", "decoding"),
        ("embedding", "embedding"),
        ("embedding", "searching"),
        ("llm_2", "prefilling"),
        ("llm_2", "decoding"),
    }
    assert all("Rock" in passage.text for passage in answer.passages)
    assert answer.passages
    graph = namespace["e_graph"]
    assert isinstance(graph, Graph)
    assert "pipeline_decoding" in graph.passes  # the list's items are searched for one by one
    assert graph.e_graph != graph.p_graph
    assert len(namespace["seen"]) >= 2  # type: ignore[arg-type]  # here, and on the server
    with pytest.raises(Exception, match="runs with the passes pipelining"):
        namespace["app"].served()  # type: ignore[attr-defined]
