"""The workflow that gives chunks their vectors."""

from heddle.workflow.compile import Draft, compile_draft
from heddle.workflow.nodes import IndexingNode
from heddle.workflow.workflow import Workflow


def indexing_workflow() -> Workflow:
    """Return the workflow of one batch of chunks; its inputs are `texts` and `chunk_ids`."""
    node = IndexingNode("index", "texts", "chunk_ids", "stored")
    inputs = frozenset({"texts", "chunk_ids"})
    return compile_draft(Draft("index", {node.id: node}, (), (), (), (), inputs, max_steps=1))
