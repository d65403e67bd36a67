"""Answers from several groups of passages: merged as a tree, or refined one after another.

Source: Teola §2.1 and Fig. 6 (the synthesis modes tree and refine).
Deviates: the groups are counted when the workflow is made, so that passes see all of its calls; a
    group without passages costs no call.
"""

from heddle.core.errors import WorkflowError
from heddle.workflow.nodes import PromptRole
from heddle.workflow.presets import ANSWER, ANSWER_TOKENS
from heddle.workflow.prompt_texts import prompt_text
from heddle.workflow.ragraph import RAGraph


def add_tree(
    graph: RAGraph,
    passages: str = "docs",
    output: str = "answer",
    *,
    groups: int,
    each: int = 1,
    max_tokens: int = ANSWER_TOKENS,
) -> RAGraph:
    """Answer from each group of passages at once, then merge what was answered.

    Where only one group has passages, or all answers are equal, nothing has to be merged.

    Args:
        graph: gets the nodes `part_1`, `part_2`, ..., `parts` and the last one, named as `output`.
        passages: the slot of a retrieval.
        output: the slot of the merged answer.
        groups: how many groups there are at most.
        each: passages of a group; the last group has all that are left.
        max_tokens: most tokens of each answer.

    Raises:
        WorkflowError: a number is below 1, or a node is there already.
    """
    spans = _spans(passages, groups, each)
    names = [f"part_{number}" for number in range(1, groups + 1)]
    for name, span in zip(names, spans, strict=True):
        _add_answer(graph, name, span, max_tokens, needs=None if span == spans[0] else span)
    graph.add_join("parts", names, "summary")
    return graph.add_generation(
        output,
        prompt_text("merge"),
        output=output,
        max_tokens=max_tokens,
        role=PromptRole.ANSWER_FROM_SUMMARY.value,
        needs="summary[1:]",
        if_empty="{summary}",
    )


def add_refine(
    graph: RAGraph,
    passages: str = "docs",
    output: str = "answer",
    *,
    groups: int,
    each: int = 1,
    max_tokens: int = ANSWER_TOKENS,
) -> RAGraph:
    """Answer from the first group of passages, and improve the answer with each of the others.

    Args:
        graph: gets the nodes `draft_1`, `draft_2`, ..., and the last one, named as `output`.
        passages: the slot of a retrieval.
        output: the slot of the last answer.
        groups: how many groups there are at most.
        each: passages of a group; the last group has all that are left.
        max_tokens: most tokens of each answer.

    Raises:
        WorkflowError: a number is below 1, or a node is there already.
    """
    spans = _spans(passages, groups, each)
    names = [*(f"draft_{number}" for number in range(1, groups)), output]
    _add_answer(graph, names[0], spans[0], max_tokens)
    refine = prompt_text("refine")
    for name, before, span in zip(names[1:], names, spans[1:], strict=False):
        graph.add_generation(
            name,
            refine.replace("{docs}", f"{{{span}}}").replace("{draft}", f"{{{before}}}"),
            output=name,
            max_tokens=max_tokens,
            needs=span,
            if_empty=f"{{{before}}}",
        )
    return graph


def _add_answer(
    graph: RAGraph, name: str, span: str, max_tokens: int, needs: str | None = None
) -> None:
    """Add the generation that answers from a span of passages."""
    # A model's own prompt shows the slot {docs}, or a span of it.
    role = PromptRole.ANSWER.value if span.startswith("docs[") else None
    prompt = ANSWER.replace("{docs}", f"{{{span}}}")
    graph.add_generation(name, prompt, name, max_tokens=max_tokens, role=role, needs=needs)


def _spans(passages: str, groups: int, each: int) -> list[str]:
    """Return the groups as spans of a slot, such as docs[0:2]."""
    if groups < 1 or each < 1:
        raise WorkflowError(f"groups and each must be at least 1, got {groups} and {each}")
    firsts = [each * group for group in range(groups)]
    return [
        f"{passages}[{first}:{'' if first == firsts[-1] else first + each}]" for first in firsts
    ]
