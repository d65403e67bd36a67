"""The workflows that runs of workflow functions have made, part by part."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from heddle.core.errors import WorkflowError
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.workflow import Workflow

PARTS_MAX: Final = 1024


@dataclass(slots=True)
class FunctionParts:
    """Gives equal parts behind the same workflow the same workflow, so that plans of it are found.

    Mutates: a bounded cache.
    """

    _kept: OrderedDict[object, tuple[Workflow, Workflow | None]] = field(
        default_factory=OrderedDict
    )

    def with_part(self, before: Workflow, part: RAGraph, *, keeps: bool = True) -> Workflow:
        """Return a workflow whose next nodes are those of a part, and whose entries are theirs.

        Unless it `keeps` it, the part may hold texts that must not outlive the request.

        Raises:
            WorkflowError: the part can't be run.
        """
        if not (keeps and before.is_kept):
            return replace(_following(before, part), is_kept=False)
        key = id(before), part.inputs, tuple(part.nodes.values())
        whole = self._keep(key, before, lambda: _following(before, part))
        assert whole is not None, "a part that can't be run raises"
        return whole

    def joined(self, before: Workflow, first: RAGraph, second: RAGraph) -> Workflow | None:
        """Return two parts as one, as if the function had not waited between them.

        None: they can't be one, such as where a loop calls a node again.
        """
        nodes = tuple(first.nodes.values()), tuple(second.nodes.values())
        return self._keep(
            (id(before), first.inputs, *nodes), before, lambda: _joined(before, first, second)
        )

    def _keep(
        self, key: object, before: Workflow, make: Callable[[], Workflow | None]
    ) -> Workflow | None:
        try:
            known = self._kept.get(key)
        except TypeError:  # of a tool without a hash, which no equal part can be found by
            made = make()
            return None if made is None else replace(made, is_kept=False)
        if known is not None:
            self._kept.move_to_end(key)
            return known[1]
        made = make()
        # The one before is kept beside it, so no other workflow can get its id.
        self._kept[key] = before, made
        if len(self._kept) > PARTS_MAX:
            self._kept.popitem(last=False)
        return made


def _following(before: Workflow, part: RAGraph) -> Workflow:
    compiled = part.compile(before.nodes.values())
    if before.change is not None:
        compiled = before.change(compiled)
    nodes = {**before.nodes, **compiled.nodes}
    return replace(compiled, nodes=nodes, function=before.function, change=before.change)


def _joined(before: Workflow, first: RAGraph, second: RAGraph) -> Workflow | None:
    try:
        return _following(before, first.with_nodes(second.nodes))
    except WorkflowError:
        return None
