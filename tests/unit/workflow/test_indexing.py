"""The indexing workflow takes a batch of chunks."""

from heddle.workflow.indexing import indexing_workflow


def test_the_workflow_takes_a_batch_of_chunks():
    workflow = indexing_workflow()
    assert workflow.inputs == {"texts", "chunk_ids"}
    assert workflow.entries == ("index",)
