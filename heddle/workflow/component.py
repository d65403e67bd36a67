"""Components of a workflow template, joined by `>>`. (Teola §3.2)"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Final, overload

from heddle.core.errors import WorkflowError

SPLITTABLE: Final = "splittable"
BATCHABLE: Final = "batchable"
ANNOTATIONS: Final = {"splittable": SPLITTABLE, "splitable": SPLITTABLE, "batchable": BATCHABLE}
"""The annotations as they are written; Teola's Listing 1 has "splitable", its text "splittable"."""


@dataclass(eq=False)
class Component:
    """One component of a template: what an engine is to do, once for each request.

    Args:
        engine: the name of the engine that carries it out: "LLM", "Embedding", "Searching",
            "Reranking", or that of a tool.
        in_kwargs: slots that it reads, by the names that it has for them; those that aren't named
            follow from the components before it.
        out_kwargs: the slot that it writes, by the name of its value: "text", "passages", "value".
        anno: "splittable": its output is a list of independent parts; "batchable": it takes the
            parts of such a list one by one, all at once; None.
        config: as in RAGraph: a prompt and `max_tokens`, or `topk`.
        name: of the node; None = the engine's, in small letters.

    Mutates: `a >> b` notes in both that b comes after a.

    Raises:
        WorkflowError: a value can't be used.
    """

    engine: str
    in_kwargs: Mapping[str, str] | None = None
    out_kwargs: Mapping[str, str] | None = None
    anno: str | None = None
    config: Mapping[str, object] | None = None
    name: str | None = None
    after: "list[Component]" = field(default_factory=list, init=False, repr=False)
    before: "list[Component]" = field(default_factory=list, init=False, repr=False)
    omits_after: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.engine, str) or not self.engine:
            raise WorkflowError(f"component: engine must be a name, got {self.engine!r:.40}")
        where = f"component {self.name or self.engine!r}"
        for name in ("in_kwargs", "out_kwargs", "config"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Mapping):
                raise WorkflowError(f"{where}: {name} must be a mapping, got {value!r:.40}")
        if self.anno is not None and self.anno not in ANNOTATIONS:
            known = ", ".join(ANNOTATIONS)
            raise WorkflowError(f"{where}: anno must be None or one of {known}, got {self.anno!r}")

    @property
    def is_splittable(self) -> bool:
        """Whether its output is a list of independent parts."""
        return ANNOTATIONS.get(self.anno or "") == SPLITTABLE

    @property
    def is_batchable(self) -> bool:
        """Whether it takes the parts of a list one by one."""
        return ANNOTATIONS.get(self.anno or "") == BATCHABLE

    @overload
    def __rshift__(self, following: "Component") -> "Component": ...
    @overload
    def __rshift__(self, following: EllipsisType) -> "Omitted": ...

    def __rshift__(self, following: "Component | EllipsisType") -> "Component | Omitted":
        """Let a component come after this one, and return it; `...` leaves those between out."""
        if following is ...:
            return Omitted(self)
        if not isinstance(following, Component):
            raise WorkflowError(f"component {self.engine!r} >> {following!r:.40}: no component")
        self.after.append(following)
        following.before.append(self)
        return following


@dataclass(frozen=True, slots=True)
class Omitted:
    """`component >> ...`: components that the template leaves out follow here."""

    behind: Component

    def __rshift__(self, following: Component) -> Component:
        """Let a component come after those that are left out, and return it."""
        if not isinstance(following, Component):
            raise WorkflowError(f"... >> {following!r:.40}: only a component can follow")
        self.behind.omits_after = True
        return self.behind >> following


def joined_to(components: list[Component]) -> Iterator[Component]:
    """Yield these and all that they are joined to, in the order in which they are found."""
    seen: set[int] = set()
    waiting = list(components)
    while waiting:
        component = waiting.pop(0)
        if id(component) not in seen:
            seen.add(id(component))
            yield component
            waiting = [*component.before, *component.after, *waiting]
