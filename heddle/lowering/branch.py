"""A callable edge: one Condition, which sees the state as its turn leaves it."""

from heddle.core.primitives import PrimitiveKind
from heddle.graph.primitive import ConditionConfig, Primitive, Read
from heddle.lowering.scope import Scope
from heddle.workflow.workflow import Branch, Workflow


def lower_branch(branch: Branch, workflow: Workflow, scope: Scope, turn: int) -> Primitive:
    """Return the Condition after one turn of the branch's source.

    Its state shows every slot's newest value; of a list that the loop consumes, what is left.
    """
    state = tuple(
        (slot, Read(key, scope.taken_of(slot) if slot in workflow.list_slots else None))
        for slot, key in scope.keys
    )
    return Primitive(
        name=f"{branch.source}.condition@{turn}",
        kind=PrimitiveKind.CONDITION,
        node=str(branch.source),
        reads=tuple(dict.fromkeys(read.key for _, read in state)),
        writes=(),
        config=ConditionConfig(branch.choose, state, turn + 1),
    )
