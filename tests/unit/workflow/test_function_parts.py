"""Equal parts give one workflow, unless their texts must not outlive their request."""

from heddle.workflow.function import as_workflow
from heddle.workflow.function_parts import FunctionParts
from heddle.workflow.ragraph import RAGraph


@as_workflow
async def own(rag, query):
    return await rag.generate(f"{query}")


def part():
    return RAGraph("own", ("query",)).add_generation("write", "Say {query}", output="text")


def test_equal_parts_behind_one_workflow_give_one():
    parts, before = FunctionParts(), own.compile()
    assert parts.with_part(before, part()) is parts.with_part(before, part())
    assert parts.with_part(before, part()).is_kept


def test_what_must_not_outlive_its_request_is_in_no_cache():
    parts, before = FunctionParts(), own.compile()
    first = parts.with_part(before, part(), keeps=False)
    assert first is not parts.with_part(before, part(), keeps=False)
    assert not first.is_kept
    assert not parts.with_part(first, part()).is_kept
