"""What a workflow function calls: generations, retrievals, tools. Each gives a Deferred."""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import is_
from typing import Any, Final

from heddle.core.errors import WorkflowError
from heddle.workflow.checking.values import check_function
from heddle.workflow.deferred import Deferred, plain_text, template_text
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.template import DOCUMENTS, Template, parse_template

Site = tuple[object, int]
COLLECTIONS: Final = (list, tuple, set, frozenset)


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A tool's argument that is known: texts and numbers compare by value, others by identity."""

    value: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[type, object]:
        # 1, 1.0 and True are equal to Python; a list has no hash, and may be changed later.
        kind = type(self.value)
        return kind, repr(self.value) if kind in (str, int, float, bool) else id(self.value)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool's function with some of its arguments; None stands for those that are slots."""

    function: Callable[..., object]
    arguments: tuple[Constant | None, ...]

    def __call__(self, *values: object) -> object:
        """Call it with the slots' values, in order."""
        rest = iter(values)
        return self.function(*(next(rest) if a is None else a.value for a in self.arguments))


@dataclass(slots=True)
class Calls:
    """Records the calls of one run of a workflow function.

    A call is a node of the workflow: what the same line calls again, in a loop, is the same node
    once more. `name` names it; else its line does.

    Args:
        workflow: the function's name.
        slots: what can be read: the inputs, and what earlier calls write.
        max_steps: calls at most.
        wait: waits for a slot's value, and hands in what was recorded before.
        hand_in: hands in what was recorded, and goes on at once.

    Mutates: `part` and `earlier` until they are handed in; `slots`.

    Example:
        from heddle import as_workflow

        @as_workflow
        async def age(rag, query):
            docs = await rag.retrieve(query, name="docs", topk=1)
            year = await rag.generate(f"{docs}Question: {query}", role="answer")
            return await rag.tool(lambda year: f"{2026 - int(year)} years", year)

        print(server.app(age).invoke("In which year was Oak Mill founded?").text)  # 203 years
    """

    workflow: str
    slots: list[str]
    max_steps: int
    wait: Callable[[str], object]
    hand_in: Callable[[], None]
    part: RAGraph = field(init=False)
    earlier: dict[str, str] = field(default_factory=dict)
    steps: int = 0
    _sites: dict[Site, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.begin_part()

    def begin_part(self) -> None:
        """Begin another part of the workflow, which may read all slots."""
        self.part = RAGraph(self.workflow, tuple(self.slots), self.max_steps)
        self.earlier = {}

    def generate(
        self,
        prompt: str | Deferred,
        *,
        name: str | None = None,
        needs: str | Deferred | None = None,
        if_empty: str | Deferred = "",
        **options: Any,  # noqa: ANN401 - those of add_generation
    ) -> Deferred:
        """Have a model write: a text, or with `parse="lines"` a list.

        Where the value `needs` is empty, `if_empty` is the text. `options` are the others of
        `RAGraph.add_generation`.

        Raises:
            WorkflowError: a value can't be used.
        """
        options = self._all_known(options)
        if isinstance(needs, Deferred):
            needs = needs.slot
        node, slot = self._place("generate", name)
        self.part.add_generation(
            node,
            template_text(f"{prompt}"),
            slot,
            needs=needs,
            if_empty=template_text(f"{if_empty}"),
            **options,
        )
        return self._deferred(slot)

    def retrieve(
        self,
        query: str | Deferred,
        *,
        name: str | None = None,
        collect: Deferred | bool = False,
        within: Deferred | None = None,
        rerank_by: str | Deferred | None = None,
        **options: Any,  # noqa: ANN401 - those of add_retrieval
    ) -> Deferred:
        """Search for passages; a list in the query is searched for item by item, all at once.

        With `collect` the passages of each item are kept, behind those of an earlier retrieval
        where it is one. `within`, what `index` gave, has the request's own documents searched.
        `options` are the others of `RAGraph.add_retrieval`.

        Raises:
            WorkflowError: a value can't be used.
        """
        options = {"allow_fewer": True, **self._all_known(options)}
        if isinstance(collect, Deferred) and collect.slot not in self.part.inputs:
            self.hand_in()
        node, slot = self._place("retrieve", name)
        if isinstance(collect, Deferred):
            self.earlier[slot] = collect.slot
        if within is not None:
            options["within"] = _slot(within, "retrieve: within is what rag.index gave")
        if rerank_by is not None:
            options["rerank_by"] = _template(rerank_by, node)
        is_collected = isinstance(collect, Deferred) or collect
        self.part.add_retrieval(node, _template(query, node), slot, collect=is_collected, **options)
        return self._deferred(slot)

    def index(self, documents: Deferred, *, name: str | None = None) -> Deferred:
        """Embed the documents that come with the request, for retrievals `within` them.

        Raises:
            WorkflowError: it isn't the function's parameter `documents`.
        """
        if not isinstance(documents, Deferred) or documents.slot != DOCUMENTS:
            raise WorkflowError(
                f"index: give it the request's documents, the function's parameter {DOCUMENTS!r}"
            )
        node, slot = self._place("index", name)
        self.part.add_documents(node, slot)
        return self._deferred(slot)

    def extract(
        self,
        passages: Deferred,
        question: str | Deferred,
        *,
        name: str | None = None,
        **options: Any,  # noqa: ANN401 - those of add_extraction
    ) -> Deferred:
        """Quote an answer from passages; `options` are those of `RAGraph.add_extraction`.

        Raises:
            WorkflowError: a value can't be used.
        """
        options = self._all_known(options)
        read = _slot(passages, "extract: give it passages, what a call gave")
        node, slot = self._place("extract", name)
        asked = _template(question, node)
        self.part.add_extraction(node, read, slot, question=asked, **options)
        return self._deferred(slot)

    def tool(
        self,
        function: Callable[..., object],
        *arguments: object,
        name: str | None = None,
        timeout_s: float = math.inf,
    ) -> Deferred:
        """Call a Python function in a thread: for what takes time, and for what has effects.

        A call that takes longer than `timeout_s` fails [s].

        Raises:
            WorkflowError: it is no plain function, or a value is out of range.
        """
        check_function(function, "tool")
        arguments = tuple(a if isinstance(a, Deferred) else self._known(a) for a in arguments)
        node, slot = self._place("tool", name)
        given = tuple(None if isinstance(a, Deferred) else Constant(a) for a in arguments)
        inputs = [a.slot for a in arguments if isinstance(a, Deferred)]
        self.part.add_tool(node, ToolCall(function, given), inputs, slot, timeout_s=timeout_s)
        return self._deferred(slot)

    def _known(self, setting: Any) -> Any:  # noqa: ANN401 - of any type
        """Return a setting with the values in the place of deferred ones, waiting for each.

        They may stand in texts, lists and mappings. A setting without any is returned itself: a
        constant may be known by its identity.
        """
        if isinstance(setting, Deferred):
            return setting.value
        if isinstance(setting, str):
            return plain_text(setting, self.wait)
        if type(setting) is dict:
            pairs = tuple(setting.items())
            known = self._known(pairs)
            return setting if known is pairs else dict(known)
        if type(setting) in COLLECTIONS:
            items = [self._known(item) for item in setting]
            return setting if all(map(is_, items, setting)) else type(setting)(items)
        return setting

    def _all_known(self, options: dict[str, Any]) -> dict[str, Any]:
        return {name: self._known(value) for name, value in options.items()}

    def _place(self, kind: str, name: str | None) -> tuple[str, str]:
        """Return the node of a call, and the slot that it writes this time."""
        self.steps += 1
        if self.steps > self.max_steps:
            raise WorkflowError(
                f"workflow {self.workflow!r} made more than {self.max_steps} calls: check its "
                "loops, or raise max_steps"
            )
        node = name or self._name_of_line(kind)
        if node in self.part.nodes:
            self.hand_in()
        slot, number = node, 2
        while slot in self.slots:
            slot, number = f"{node}_{number}", number + 1
        self.slots.append(slot)
        return node, slot

    def _name_of_line(self, kind: str) -> str:
        """Return the name of a call that has none: its line, with a letter where it has several."""
        frame = sys._getframe(3)  # the function that makes the call
        site: Site = frame.f_code, frame.f_lasti
        if site not in self._sites:
            base = f"{kind}_line_{frame.f_lineno}"
            taken = sum(1 for known in self._sites.values() if known.rstrip("b") == base)
            self._sites[site] = base + "b" * taken
        return self._sites[site]

    def _deferred(self, slot: str) -> Deferred:
        return Deferred(slot, self.wait)


def _slot(given: object, meant: str) -> str:
    """Return the slot of what a call gave; else refuse it with the words of what is meant."""
    if not isinstance(given, Deferred):
        raise WorkflowError(f"{meant}, got {given!r:.40}")
    return given.slot


def _template(text: str | Deferred, node: str) -> Template:
    """Return a text as a template; a single word, too, is a text and no slot's name."""
    return parse_template(template_text(f"{text}"), where=f"{node!r}, query")
