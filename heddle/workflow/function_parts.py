"""The workflows that runs of workflow functions have made, part by part."""

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Final

from heddle.workflow.ragraph import RAGraph
from heddle.workflow.workflow import Workflow

PARTS_MAX: Final = 1024


@dataclass(slots=True)
class FunctionParts:
    """Gives equal parts behind the same workflow the same workflow, so that plans of it are found.

    Mutates: a bounded cache.
    """

    _kept: OrderedDict[object, tuple[Workflow, Workflow]] = field(default_factory=OrderedDict)

    def with_part(self, before: Workflow, part: RAGraph) -> Workflow:
        """Return a workflow whose next nodes are those of a part, and whose entries are theirs.

        Raises:
            WorkflowError: the part can't be run.
        """
        key = id(before), part.inputs, tuple(part.nodes.values())
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key][1]
        compiled = part.compile()
        if before.change is not None:
            compiled = before.change(compiled)
        nodes = {**before.nodes, **compiled.nodes}
        whole = replace(compiled, nodes=nodes, function=before.function, change=before.change)
        # The one before is kept beside it, so no other workflow can get its id.
        self._kept[key] = before, whole
        if len(self._kept) > PARTS_MAX:
            self._kept.popitem(last=False)
        return whole
