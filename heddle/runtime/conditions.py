"""Calling a callable edge: the state it sees, and the nodes it names."""

from heddle.core.errors import WorkflowError
from heddle.graph.primitive import ConditionConfig
from heddle.runtime.object_store import ObjectStore
from heddle.workflow.nodes import NodeId
from heddle.workflow.ragraph import END
from heddle.workflow.template import TURN
from heddle.workflow.workflow import Workflow


def choose_targets(
    config: ConditionConfig, node: str, workflow: Workflow, store: ObjectStore
) -> tuple[NodeId, ...]:
    """Call a callable edge and return the nodes it names; none for END.

    Raises:
        WorkflowError: the callable raised, or named something that is none of the edge's targets.
    """
    try:
        chosen = config.choose(_state(config, store))
    except BaseException as error:  # nothing of it must end the runtime's thread, nor its cycle
        raise WorkflowError(
            f"the callable edge after node {node!r} raised {type(error).__name__}: {error}"
        ) from error
    declared = [branch.targets for branch in workflow.branches if str(branch.source) == node]
    allowed = declared[0] if declared else tuple(workflow.nodes)
    targets: list[NodeId] = []
    for target in chosen if isinstance(chosen, list | tuple) else [chosen]:
        # True and False equal the ids 1 and 0, and are hardly ever meant as such.
        is_flag = isinstance(target, bool)
        if isinstance(target, int | str) and not is_flag and target in allowed:
            targets.append(target)
        elif target != END:
            raise WorkflowError(
                f"the callable edge after node {node!r} returned {target!r}, "
                f"which is none of its targets; return one of {list(allowed)} or END"
            )
    return tuple(targets)


def _state(config: ConditionConfig, store: ObjectStore) -> dict[str, object]:
    state: dict[str, object] = {TURN: config.turn}
    for slot, read in config.state:
        value = store.get(read.key)
        left_from = read.item if isinstance(value, tuple) else None
        if left_from is None or not isinstance(value, tuple):
            state[slot] = value
        else:
            state[slot] = list(value[left_from:])
    return state
