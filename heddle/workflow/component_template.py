"""From joined components to a RAGraph: a template is another way to write one. (ADR 35)"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import Any, Final

from heddle.core.errors import WorkflowError
from heddle.workflow.component import Component, joined_to
from heddle.workflow.ragraph import END, START, RAGraph
from heddle.workflow.template import QUESTION, QUESTION_ALIASES, Slot, Template, parse_template

LLM: Final = "LLM"
EMBEDDING: Final = "Embedding"
SEARCHING: Final = "Searching"
RERANKING: Final = "Reranking"
RETRIEVAL: Final = (EMBEDDING, SEARCHING, RERANKING)  # together they are one retrieval node
VALUES: Final = {LLM: "text", EMBEDDING: "passages", SEARCHING: "passages", RERANKING: "passages"}
PASSAGES: Final = "docs"  # the slot of the only retrieval

Tools = Mapping[str, Callable[..., object]]


def template_graph(
    listed: Sequence[Component | EllipsisType], tools: Tools, name: str = "template"
) -> RAGraph:
    """Return a template as a graph.

    An Embedding, the Searching behind it and a Reranking behind that become one retrieval; where
    `...` leaves the Searching out, there is one with its defaults. `>>` orders the nodes; what
    doesn't pass a value is pruned, as in every workflow.

    Args:
        listed: the components; `...` stands for all that they are joined to.
        tools: the functions of engines that aren't Heddle's, by name.
        name: the workflow's.

    Raises:
        WorkflowError: the message names the component, the field and the fix.
    """
    components = [one for one in listed if isinstance(one, Component)]
    wrong = [one for one in listed if one is not ... and not isinstance(one, Component)]
    if wrong or not components:
        found = wrong[0] if wrong else listed
        raise WorkflowError(f"template {name!r}: list components and ..., got {found!r:.40}")
    joined = list(joined_to(components))
    if ... not in listed:
        missing = [c for c in joined if all(c is not one for one in components)]
        if missing:
            raise WorkflowError(
                f"template {name!r}: {_label(missing[0])} is joined to the components and not "
                "among them: list it, or `...`"
            )
    return _Drawing(name, joined, tools).graph()


@dataclass(slots=True, eq=False)
class _Group:
    """What becomes one node: a component, or those of a retrieval."""

    members: list[Component]
    node: str = ""
    slot: str = ""

    @property
    def engine(self) -> str:
        return self.members[0].engine

    @property
    def where(self) -> str:
        return _label(self.members[0])

    def merged(self, field_name: str) -> dict[str, Any]:
        """Return a mapping of all members; a key twice is refused."""
        whole: dict[str, Any] = {}
        for member in self.members:
            for key, value in (getattr(member, field_name) or {}).items():
                if key in whole:
                    raise WorkflowError(
                        f"{_label(member)}: {field_name} has {key!r}, and so has {self.where}: "
                        "leave one out"
                    )
                whole[key] = value
        return whole


@dataclass(slots=True)
class _Drawing:
    """A graph on its way from components."""

    name: str
    components: list[Component]
    tools: Tools
    groups: list[_Group] = field(default_factory=list)
    group_of: dict[int, _Group] = field(default_factory=dict)

    def graph(self) -> RAGraph:
        for component in self._in_order():
            self._group(component)
        self._name_groups()
        drawn = RAGraph(self.name, self._inputs())
        for group in self.groups:
            self._add(drawn, group)
        self._join(drawn)
        return drawn

    def _in_order(self) -> list[Component]:
        """Return the components, each behind all that come before it."""
        order: list[Component] = []
        waiting = list(self.components)
        while waiting:
            placed = {id(one) for one in order}
            ready = [c for c in waiting if all(id(b) in placed for b in c.before)]
            if not ready:
                raise WorkflowError(
                    f"template {self.name!r}: {_label(waiting[0])} comes after itself: a loop is "
                    "written as a function or with RAGraph's callable edges"
                )
            order += ready
            waiting = [c for c in waiting if all(c is not one for one in ready)]
        return order

    def _group(self, component: Component) -> None:
        group = self._retrieval_of(component)
        if group is None:
            group = _Group([])
            self.groups.append(group)
        group.members.append(component)
        self.group_of[id(component)] = group

    def _retrieval_of(self, component: Component) -> _Group | None:
        """Return the retrieval that a Searching or a Reranking belongs to."""
        if component.engine not in (SEARCHING, RERANKING):
            return None
        wanted = RETRIEVAL[: RETRIEVAL.index(component.engine)]
        found = [b for b in component.before if b.engine in wanted]
        if len(found) != 1:
            raise WorkflowError(
                f"{_label(component)} comes after one component of {' or '.join(wanted)}, "
                f"and here after {len(found)}: join it with `>>`"
            )
        return self.group_of[id(found[0])]

    def _name_groups(self) -> None:
        retrievals = [g for g in self.groups if g.engine == EMBEDDING]
        taken: set[str] = set()
        for group in self.groups:
            named = next((m.name for m in group.members if m.name), None)
            base = named or group.engine.lower()
            node, number = base, 2
            while node in taken:
                node, number = f"{base}_{number}", number + 1
            taken.add(node)
            group.node = node
            default = PASSAGES if [group] == retrievals else node
            group.slot = self._out_slot(group, default)

    def _out_slot(self, group: _Group, default: str) -> str:
        value = VALUES.get(group.engine, "value")
        given = group.merged("out_kwargs")
        unknown = sorted(given.keys() - {value})
        if unknown:
            raise WorkflowError(
                f"{group.where}: out_kwargs has {unknown[0]!r}; what it gives is {value!r}"
            )
        return str(given.get(value, default))

    def _inputs(self) -> tuple[str, ...]:
        """Return the slots that nothing writes, which are the workflow's inputs."""
        written = {group.slot for group in self.groups}
        named = [slot for g in self.groups for slot in g.merged("in_kwargs").values()]
        return tuple(dict.fromkeys(s for s in named if s not in written and s != "input"))

    def _add(self, drawn: RAGraph, group: _Group) -> None:
        self._check_annotations(group)
        if group.engine == LLM:
            self._add_generation(drawn, group)
        elif group.engine == EMBEDDING:
            self._add_retrieval(drawn, group)
        elif group.engine in self.tools:
            inputs = list(group.merged("in_kwargs").values()) or self._slots_before(group)
            called = (group.node, self.tools[group.engine], inputs, group.slot)
            _call(group, drawn.add_tool, *called, **group.merged("config"))
        else:
            known = ", ".join([*VALUES, *self.tools])
            raise WorkflowError(f"{group.where}: no engine {group.engine!r}; there are {known}")

    def _add_generation(self, drawn: RAGraph, group: _Group) -> None:
        config = group.merged("config")
        if "prompt" not in config:
            raise WorkflowError(f"{group.where}: config needs a 'prompt', such as '{{query}}'")
        prompt = self._named(group, config.pop("prompt"), "prompt")
        parse = "lines" if group.members[0].is_splittable else "text"
        _call(group, drawn.add_generation, group.node, prompt, group.slot, parse=parse, **config)

    def _add_retrieval(self, drawn: RAGraph, group: _Group) -> None:
        engines = [member.engine for member in group.members]
        if SEARCHING not in engines and not group.members[0].omits_after:
            raise WorkflowError(f"{group.where}: join it to a Searching, or to `...`")
        config = {"allow_fewer": True, **group.merged("config")}
        if RERANKING in engines and "rerank" not in config:
            raise WorkflowError(
                f"{group.where}: config of its Reranking needs 'rerank', how many are kept"
            )
        query = self._query(group, config)
        _call(group, drawn.add_retrieval, group.node, query, group.slot, **config)

    def _query(self, group: _Group, config: dict[str, Any]) -> str:
        """Take a retrieval's query out of its config, or make one of the slots that it reads."""
        if "query" in config:
            return self._named(group, config.pop("query"), "query")
        slots = list(group.merged("in_kwargs").values()) or self._slots_before(group)
        return " ".join(f"{{{slot}}}" for slot in slots)

    def _check_annotations(self, group: _Group) -> None:
        for member in group.members:
            if member.is_splittable and group.engine != LLM:
                raise WorkflowError(f"{_label(member)}: only what an LLM writes is splittable")
            if member.is_batchable and group.engine != EMBEDDING:
                raise WorkflowError(
                    f"{_label(member)}: only Embedding, Searching and Reranking are batchable"
                )
        lists = [b for b in self._before(group) if b.members[0].is_splittable]
        if lists and group.engine == EMBEDDING and not group.members[0].is_batchable:
            raise WorkflowError(
                f"{group.where} takes the list of {lists[0].where}: annotate it 'batchable'"
            )

    def _named(self, group: _Group, text: str, what: str) -> str:
        """Return a template in which the component's own names are those of slots."""
        template = parse_template(text, where=f"{group.where}, {what}")
        given = {str(own): str(slot) for own, slot in group.merged("in_kwargs").items()}
        names: dict[str, str] = {}
        for own, slot in given.items():
            # A parsed template has the question's slot for either of its names.
            read = QUESTION if own in QUESTION_ALIASES else own
            if read in names:
                raise WorkflowError(
                    f"{group.where}: in_kwargs has 'input' and 'query', which are two names of "
                    "one placeholder: leave one out"
                )
            if read not in template.slots:
                raise WorkflowError(
                    f"{group.where}: in_kwargs has {own!r}, and its {what} reads "
                    f"{', '.join(template.slots) or 'no slot'}"
                )
            names[read] = slot
        parts = (
            replace(p, name=names.get(p.name, p.name)) if isinstance(p, Slot) else p
            for p in template.parts
        )
        return Template(tuple(parts)).text

    def _before(self, group: _Group) -> list[_Group]:
        """Return the nodes that come before one, each once."""
        found = [self.group_of[id(b)] for member in group.members for b in member.before]
        return [one for one in dict.fromkeys(found) if one is not group]

    def _slots_before(self, group: _Group) -> list[str]:
        return [before.slot for before in self._before(group)] or [QUESTION]

    def _join(self, drawn: RAGraph) -> None:
        sources: set[str] = set()
        for group in self.groups:
            before = self._before(group)
            for one in before:
                drawn.add_edge(one.node, group.node)
                sources.add(one.node)
            if not before:
                drawn.add_edge(START, group.node)
        for group in self.groups:
            if group.node not in sources:
                drawn.add_edge(group.node, END)


def _call(group: _Group, add: Callable[..., object], *arguments: object, **config: object) -> None:
    """Add a node; an option that it lacks is said of the component."""
    try:
        add(*arguments, **config)
    except TypeError as error:
        raise WorkflowError(f"{group.where}: config: {error}") from None


def _label(component: Component) -> str:
    return f"component {component.name or component.engine!r}"
