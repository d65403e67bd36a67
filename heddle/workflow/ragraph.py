"""RAGraph: the workflow builder of HedraRAG's Listing 1."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from heddle.core.errors import WorkflowError
from heddle.core.payloads import NO_PAUSE, Pause, Sampling
from heddle.core.prompts.constraint import Constraint
from heddle.core.search_scope import where_of
from heddle.workflow.caching.answer_caching import NODE, SLOT, check_placed, with_cache
from heddle.workflow.checking.values import (
    check_finite,
    check_function,
    check_list,
    check_whole,
    is_finite,
    is_whole,
)
from heddle.workflow.compile import Draft, compile_draft
from heddle.workflow.nodes import (
    ROLE_SLOTS,
    AnswerCacheNode,
    DecodeRetrieval,
    DocumentsNode,
    ExtractionNode,
    GenerationNode,
    JoinNode,
    Node,
    NodeId,
    Parse,
    PromptRole,
    RetrievalNode,
    ToolNode,
)
from heddle.workflow.template import (
    DOCUMENTS,
    EMPTY,
    QUESTION_ALIASES,
    TURN,
    Slot,
    Template,
    parse_slot,
    parse_template,
)
from heddle.workflow.workflow import Chooser, Workflow


@dataclass(frozen=True, slots=True)
class Endpoint:
    """START or END: where every workflow begins and ends."""

    name: str

    def __repr__(self) -> str:
        return self.name


START: Final = Endpoint("START")
END: Final = Endpoint("END")

DEFAULT_MAX_STEPS = 64
DEFAULT_TOPK = 5
DEFAULT_RETRIEVALS_MAX = 8
DEFAULT_ADDED_MAX = 10
DEFAULT_DECODE_QUERY = "{query} {sentence}"
DEFAULT_QUOTES_MAX = 3
QUOTES_MAX = 20
TOPK_MAX = 1000
AUTO: Final = "auto"
RESERVED: Final = QUESTION_ALIASES | {TURN, DOCUMENTS}


@dataclass(slots=True)
class RAGraph:
    """A RAG workflow: generation and retrieval nodes joined by edges. (HedraRAG §4.1)

    Edges may be left out: they follow from `{placeholders}` and `output=`. `{input}` and
    `{query}` both mean the user's question. Nodes are named by ints or strings.
    `max_steps` bounds the nodes that a request with loops runs; each may run once in any case.

    Example:
        from heddle import RAGraph

        graph = RAGraph("hyde")
        graph.add_generation("imagine", "Imagine an answer: {query}", "guess", role="hypothesis")
        graph.add_retrieval("search", "{query} {guess}", topk=1, output="docs")
        graph.add_generation("answer", "{docs}Question: {query}", role="answer")
        print(server.app(graph).invoke("Who founded Oak Mill?").text)  # Ann Reed
    """

    name: str = "workflow"
    inputs: Sequence[str] = ()
    max_steps: int = DEFAULT_MAX_STEPS
    _nodes: dict[NodeId, Node] = field(default_factory=dict)
    _edges: list[tuple[NodeId | Endpoint, NodeId | Endpoint]] = field(default_factory=list)
    _branches: list[tuple[NodeId, Chooser, tuple[NodeId, ...] | None]] = field(default_factory=list)
    _cache: AnswerCacheNode | None = None
    _compiled: tuple[tuple[Draft, AnswerCacheNode | None], Workflow] | None = None

    def add_generation(
        self,
        node: NodeId,
        prompt: str,
        output: str | None = None,
        *,
        max_tokens: int = 64,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        seed: int = 0,
        stop: Sequence[str] = (),
        constraint: Constraint | None = None,
        parse: str = "auto",
        retrieve_every: int | None = None,
        retrieve_below: float | None = None,
        query: str | None = None,
        retrievals_max: int = DEFAULT_RETRIEVALS_MAX,
        added_max: int = DEFAULT_ADDED_MAX,
        system: str = "",
        role: str | None = None,
        fence: bool = True,
        needs: str | None = None,
        if_empty: str = "",
    ) -> "RAGraph":
        """Add an LLM call; `output` names the slot that gets its text.

        `parse="lines"` makes the slot a list, one item a line (JSON strings or plain text);
        "auto" does so for a slot that a loop consumes.

        A `constraint` gives the text a form, such as JSON of a schema; one that is cut off at
        `max_tokens` lacks its end.

        With `retrieve_every=n` it pauses after every n tokens, with `retrieve_below=p` before a
        token of a probability under p; it searches as the retrieval does whose passages its
        prompt shows last, adds what is new to them and writes on. `query` is the text of these
        searches: {answer} is the text so far, {sentence} the sentence it is writing; the default is
        "{query} {sentence}". It searches `retrievals_max` times at most; of more than `added_max`
        added passages, or more than fit into the context, the oldest are dropped.

        `system` is the system text. `role`, such as "answer", has a model that was trained on a
        prompt of its own for it get that prompt instead, with its own `max_tokens` and `stop`.

        Behind the passages that the prompt shows stands a line that says so, with a mark that no
        passage holds: text in a passage can't pass for the user's. `fence=False` leaves it out.

        A prompt may show a span of a list or of passages: {docs[0:2]} are the first two. `needs`
        names a slot, or a span such as "docs[0:2]": where that is empty, no model is asked, and
        the template `if_empty` is the node's text.

        Raises:
            WorkflowError: a taken id, a bad prompt, or a value out of range.
        """
        where = f"generation node {node!r}"
        sampling = Sampling(
            max_tokens, temperature, top_p, top_k, seed, _stops(stop, where), constraint=constraint
        )
        _check_sampling(sampling, where)
        if not isinstance(system, str):
            raise WorkflowError(f"{where}: system must be a text, got {system!r:.40}")
        template = parse_template(prompt, where=f"{where}, prompt")
        if if_empty and needs is None:
            raise WorkflowError(f"{where}: if_empty is the text where `needs` is empty: give needs")
        if needs is not None and (retrieve_every, retrieve_below) != (None, None):
            raise WorkflowError(f"{where}: needs can't go with retrieval while it decodes")
        self._add(
            GenerationNode(
                node,
                template,
                output or _default_slot(node),
                sampling,
                _parse(parse, where),
                _decode_retrieval(
                    Pause(retrieve_every, retrieve_below), query, retrievals_max, added_max, where
                ),
                system,
                None if role is None else _role(role, template, where),
                fence,
                None if needs is None else parse_slot(needs, where=f"{where}, needs"),
                parse_template(if_empty, where=f"{where}, if_empty") if if_empty else EMPTY,
            )
        )
        return self

    def add_retrieval(
        self,
        node: NodeId,
        query: str | Template = "query",
        output: str = "docs",
        *,
        topk: int | None = None,
        nprobe: int | None = None,
        topm: int | None = None,
        collect: bool = False,
        allow_fewer: bool = False,
        where: Mapping[str, object] | None = None,
        hybrid: bool = False,
        rerank: int | Literal["auto"] | None = None,
        rerank_by: str | Template | None = None,
        within: str | None = None,
    ) -> "RAGraph":
        """Add a vector search; `query` is a slot's name or a template such as "{query} {draft}".

        `topk=None` finds 5 passages, or all where the corpus has fewer. With a `topk` named, a
        server refuses requests while its corpus has fewer chunks, unless `allow_fewer=True`.
        `nprobe`, the clusters that are scanned, and `topm`, the candidates that a graph keeps, say
        how far the search goes in either kind of index; None = as the server has it.
        A list slot in the query gives a query for each of its items, which are searched at once:
        `topk` passages are found over all of them. `collect=True`: `topk` for each item, in their
        order, and in a loop readers see the passages of all turns, not only the last.
        `where={"lang": "en", "year": [2020, 2021]}` finds only passages of documents with such
        metadata: for each key the value, or one of the list. `topk` of these are found, or all
        there are. `hybrid=True` searches by words (BM25) as well and fuses the two rankings.
        `rerank=n`: a model reads what was found with the query, and the n best passages are kept.
        With "auto" the server does so where that is predicted to pay; leave `topk` out then.
        With `rerank_by`, a slot or a template, it reads them with that instead of the query.
        `within` names the slot of an `add_documents`: the request's own documents are searched, by
        meaning, and the corpus is not.

        Raises:
            WorkflowError: a taken id, a bad query, or a value out of range.
            InputError: `where` is no mapping of keys to values.
        """
        wanted = where_of(where or {})
        place = f"retrieval node {node!r}"
        allow_fewer = allow_fewer or topk is None
        may_rerank = rerank == AUTO
        if may_rerank and topk is not None:
            raise WorkflowError(
                f"{place}: rerank='auto' chooses how many passages are kept: leave topk out, or "
                "give rerank the number"
            )
        rerank = None if rerank == AUTO else rerank
        topk = DEFAULT_TOPK if topk is None else topk
        _check_counts(place, topk, nprobe, topm, rerank)
        if rerank_by is not None and rerank is None and not may_rerank:
            raise WorkflowError(f"{place}: rerank_by says what to rank by: give rerank, too")
        if within is not None and (hybrid or wanted or nprobe or topm):
            raise WorkflowError(
                f"{place}: within searches the request's own documents, all of them and by meaning "
                "alone: leave hybrid, where, nprobe and topm out"
            )
        template = _query(query, place)
        self._add(
            RetrievalNode(
                node,
                template,
                output,
                topk,
                nprobe,
                collect,
                allow_fewer,
                wanted,
                hybrid,
                topm,
                rerank,
                may_rerank,
                None if rerank_by is None else _query(rerank_by, place),
                within,
            )
        )
        return self

    def add_documents(self, node: NodeId, output: str = "indexed") -> "RAGraph":
        """Embed the documents that come with a request, cut into chunks.

        The workflow then needs such documents. Retrievals `within` the slot `output` search them;
        no other request sees them, and nothing of them is left when the request has ended.

        Raises:
            WorkflowError: a taken id.
        """
        self._add(DocumentsNode(node, output))
        return self

    def add_extraction(
        self,
        node: NodeId,
        passages: str = "docs",
        output: str = "quotes",
        *,
        question: str | Template = "query",
        quotes_max: int = DEFAULT_QUOTES_MAX,
    ) -> "RAGraph":
        """Quote an answer from passages, or find that they hold none.

        `passages` is the slot of a retrieval, `question` a slot's name or a template. The slot
        `output` gets Quotations; in a prompt it stands for the best answer's text.

        Raises:
            WorkflowError: a taken id, a bad question, or `quotes_max` out of range.
        """
        place = f"extraction node {node!r}"
        check_whole(place, "quotes_max", quotes_max, 1, QUOTES_MAX)
        self._add(ExtractionNode(node, _query(question, place), passages, output, quotes_max))
        return self

    def add_join(
        self, node: NodeId, slots: Sequence[str], output: str, *, before: str = ""
    ) -> "RAGraph":
        """Join texts, lists and passages of slots to one list; no model is asked.

        What is empty is left out, and so is a text or a passage that the list has already. A join
        in a loop may read its own slot: it adds to the turn before. The template `before`, such as
        "{query} ", stands before each text.

        Raises:
            WorkflowError: a taken id, no slot, or a bad template.
        """
        where = f"join node {node!r}"
        check_list(where, "slots", slots)
        if not slots:
            raise WorkflowError(f"{where}: give it at least one slot")
        template = parse_template(before, where=f"{where}, before") if before else EMPTY
        self._add(JoinNode(node, tuple(_question(slot) for slot in slots), output, template))
        return self

    def add_answer_cache(
        self, node: NodeId = NODE, *, similarity: float | None = None
    ) -> "RAGraph":
        """Look for an earlier answer before anything runs, and keep the answer for later requests.

        An answer is taken where the question is the same (or similar: `similarity` is the least
        cosine) and its searches find the same passages now. (docs/guide/answer-cache.md)

        Raises:
            WorkflowError: a second cache, a taken id, or a similarity out of range.
        """
        where = f"answer cache {node!r}"
        if self._cache is not None:
            raise WorkflowError(f"{where}: the graph has one already")
        if similarity is not None and not (is_finite(similarity) and 0.0 < similarity < 1.0):
            raise WorkflowError(
                f"{where}: similarity must be a number between 0 and 1, a cosine, "
                f"got {similarity!r:.40}"
            )
        self._check_new(node, SLOT)
        self._cache = AnswerCacheNode(node, SLOT, similarity)
        return self

    def add_tool(
        self,
        node: NodeId,
        function: Callable[..., object],
        inputs: Sequence[str],
        output: str,
        *,
        timeout_s: float = math.inf,
        batch_max: int = 1,
    ) -> "RAGraph":
        """Add a Python function of some slots; it runs in a bounded thread pool.

        A call that takes longer than `timeout_s` fails its request, and no other [s]. With a
        `batch_max` above 1 the function takes the calls of several requests at once: a list of
        tuples of arguments, at most `batch_max`. It returns a list with a result for each; an
        exception in the list fails its own request.

        Raises:
            WorkflowError: a taken id, no plain function, or a value out of range.
        """
        where = f"tool node {node!r}"
        check_function(function, where)
        if timeout_s != math.inf and not (is_finite(timeout_s) and timeout_s > 0):
            raise WorkflowError(
                f"{where}: timeout_s must be a number above 0, got {timeout_s!r:.40}"
            )
        check_whole(where, "batch_max", batch_max, 1)
        check_list(where, "inputs", inputs)
        arguments = tuple(_question(slot) for slot in inputs)
        self._add(ToolNode(node, function, arguments, output, timeout_s, batch_max))
        return self

    def add_edge(
        self,
        source: NodeId | Endpoint,
        target: NodeId | Endpoint | Chooser,
        targets: Sequence[NodeId | Endpoint] | None = None,
    ) -> "RAGraph":
        """Join two nodes, or make a callable choose the next one from the state.

        Args:
            source: a node or START.
            target: a node, END, or a callable of the state that returns one of those.
            targets: the nodes a callable may return, if you want them checked and drawn; END
                always may.

        Raises:
            WorkflowError: an edge into START or out of END, two callables on one node, or targets
                of an edge without one.
        """
        if source == END or target == START:
            raise WorkflowError(
                f"edge {source!r} -> {target!r}: nothing leaves END or enters START"
            )
        chosen = _targets(targets, target, f"edge {source!r} -> {target!r:.40}")
        if callable(target):
            if isinstance(source, Endpoint):
                raise WorkflowError("a callable edge needs a node as its source, not START")
            if any(source == known for known, _, _ in self._branches):
                raise WorkflowError(f"node {source!r} already has a callable edge; merge the two")
            self._branches.append((source, target, chosen))
        else:
            self._edges.append((source, target))
        return self

    def with_nodes(self, others: Mapping[NodeId, Node]) -> "RAGraph":
        """Return a graph of this one's nodes and others, joined by data alone.

        Raises:
            WorkflowError: both have a node of one id.
        """
        joined = RAGraph(self.name, self.inputs, self.max_steps)
        for node in (*self._nodes.values(), *others.values()):
            joined._add(node)
        return joined

    @property
    def nodes(self) -> Mapping[NodeId, Node]:
        """What was added, by id."""
        return self._nodes

    def compile(self, earlier: Iterable[Node] = ()) -> Workflow:
        """Check the graph and return it frozen.

        `earlier` are the nodes before it, where it is a later part of a workflow function.

        Raises:
            WorkflowError: an unknown placeholder or node, an unreachable node, no way to END,
                two writers of one slot, or a static loop; the message names the node.
        """
        check_list(f"workflow {self.name!r}", "inputs", self.inputs)
        reads = {DOCUMENTS} if _indexed(self._nodes.values()) else set()
        draft = Draft(
            name=self.name,
            nodes=dict(self._nodes),
            starts=tuple(t for s, t in self._edges if s == START and not isinstance(t, Endpoint)),
            ends=tuple(s for s, t in self._edges if t == END and not isinstance(s, Endpoint)),
            edges=tuple(
                (s, t)
                for s, t in self._edges
                if not isinstance(s, Endpoint) and not isinstance(t, Endpoint)
            ),
            branches=tuple(self._branches),
            inputs=frozenset(_question(i) for i in self.inputs) | {"query"} | reads,
            max_steps=self.max_steps,
            indexed=_indexed(earlier),
        )
        # Submitting a graph again and again must not check it again and again.
        key = draft, self._cache
        if self._compiled is None or self._compiled[0] != key:
            workflow = compile_draft(draft)
            if self._cache is not None:
                check_placed(workflow)
                workflow = with_cache(workflow, self._cache)
            self._compiled = key, workflow
        return self._compiled[1]

    def _add(self, node: Node) -> None:
        self._check_new(node.id, node.output)
        self._nodes[node.id] = node

    def _check_new(self, node: NodeId, output: str) -> None:
        if isinstance(node, bool) or not isinstance(node, int | str):
            raise WorkflowError(f"a node's id is an int or a string, got {node!r}")
        known = [*self._nodes, *([] if self._cache is None else [self._cache.id])]
        if str(node) in map(str, known):
            raise WorkflowError(f"node {node!r} is there already; ids must differ as text")
        if not output.isidentifier() or output in RESERVED:
            raise WorkflowError(
                f"node {node!r}: output {output!r} must be a plain name "
                f"other than {', '.join(sorted(RESERVED))}"
            )


def _indexed(nodes: Iterable[Node]) -> frozenset[str]:
    """Return the slots of a request's documents, once they are embedded."""
    return frozenset(node.output for node in nodes if isinstance(node, DocumentsNode))


def _default_slot(node: NodeId) -> str:
    """Return a slot for a generation without one: a valid name that no other node has."""
    text = str(node)
    return f"output_{text}" if f"output_{text}".isidentifier() else f"output_{text.encode().hex()}"


def _question(slot: str) -> str:
    return "query" if slot == "input" else slot


def _query(query: str | Template, where: str) -> Template:
    if isinstance(query, Template):
        return query
    if query.isidentifier():
        return Template((Slot(_question(query)),))
    return parse_template(query, where=f"{where}, query")


def _check_sampling(sampling: Sampling, where: str) -> None:
    """Refuse settings of a generation that are out of range."""
    check_whole(where, "max_tokens", sampling.max_tokens, 1)
    check_whole(where, "seed", sampling.seed, 0)
    check_whole(where, "top_k", sampling.top_k, 0)
    check_finite(where, "temperature", sampling.temperature)
    check_finite(where, "top_p", sampling.top_p)
    temperature, top_p, constraint = sampling.temperature, sampling.top_p, sampling.constraint
    if temperature < 0 or not 0 < top_p <= 1:
        raise WorkflowError(
            f"{where}: need temperature >= 0 and 0 < top_p <= 1, got {temperature=}, {top_p=}"
        )
    if not isinstance(constraint, Constraint | None):
        raise WorkflowError(f"{where}: constraint must be a Constraint, got {constraint!r:.40}")


def _check_counts(
    where: str, topk: int, nprobe: int | None, topm: int | None, rerank: int | None
) -> None:
    """Refuse counts of a retrieval that are out of range."""
    check_whole(where, "topk", topk, 1, TOPK_MAX)
    for name, count in (("nprobe", nprobe), ("topm", topm)):
        if count is not None:
            check_whole(where, name, count, 1)
    if rerank is not None and not (is_whole(rerank) and 1 <= rerank <= topk):
        raise WorkflowError(
            f"{where}: rerank is how many of the {topk} passages found are kept, so it must be "
            f"a whole number in 1..{topk}, got {rerank!r:.40}"
        )


def _targets(
    targets: Sequence[NodeId | Endpoint] | None, target: object, where: str
) -> tuple[NodeId, ...] | None:
    """Return the nodes that a callable edge may lead to, None = any; END it may name always."""
    if targets is None:
        return None
    check_list(where, "targets", targets)
    if not callable(target):
        raise WorkflowError(f"{where}: targets are what a callable may return; leave them out")
    if START in targets:
        raise WorkflowError(f"{where}: nothing enters START, which targets name")
    return tuple(one for one in targets if not isinstance(one, Endpoint))


def _decode_retrieval(
    pause: Pause, query: str | None, retrievals_max: int, added_max: int, where: str
) -> DecodeRetrieval | None:
    if pause == NO_PAUSE:
        if query is not None:
            raise WorkflowError(
                f"{where}: query= is what it searches for while it decodes; say when, with "
                "retrieve_every= or retrieve_below=, or leave it out"
            )
        return None
    if pause.after is not None and pause.below is not None:
        raise WorkflowError(
            f"{where}: retrieve_every and retrieve_below are both given; leave one out"
        )
    if pause.after is not None and not (is_whole(pause.after) and pause.after >= 1):
        raise WorkflowError(
            f"{where}: retrieve_every is {pause.after!r:.40}; it counts tokens, so give 1 or more, "
            "a whole number"
        )
    if pause.below is not None and not (is_finite(pause.below) and 0.0 < pause.below < 1.0):
        raise WorkflowError(
            f"{where}: retrieve_below is {pause.below!r:.40}; it is a probability, so give a "
            "number between 0 and 1"
        )
    for name, value in (("retrievals_max", retrievals_max), ("added_max", added_max)):
        check_whole(where, name, value, 1)
    template = _query(DEFAULT_DECODE_QUERY if query is None else query, where)
    return DecodeRetrieval(pause, template, retrievals_max, added_max)


def _stops(stop: Sequence[str], where: str) -> tuple[str, ...]:
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    if not all(isinstance(one, str) and one for one in stops):
        raise WorkflowError(f"{where}: stop must be texts that are not empty, got {stop!r:.40}")
    return stops


def _role(role: str, prompt: Template, where: str) -> PromptRole:
    found = next((one for one in PromptRole if one.value == role), None)
    if found is None:
        names = ", ".join(one.value for one in PromptRole)
        raise WorkflowError(f"{where}: role must be one of {names}, got {role!r}")
    if set(prompt.numbered) != ROLE_SLOTS[found]:
        slots = ", ".join(f"{{{slot}}}" for slot in sorted(ROLE_SLOTS[found]))
        raise WorkflowError(f"{where}: a prompt of role {role!r} has {slots} and no others")
    shown = dict.fromkeys(part for part in prompt.parts if isinstance(part, Slot))
    if len(shown) > len(prompt.numbered):
        texts = ", ".join(slot.text for slot in shown)
        raise WorkflowError(
            f"{where}: a model's own prompt of role {role!r} has one place for several of {texts}: "
            "make them one list (add_join, or collect= of a retrieval), or leave role out"
        )
    return found


def _parse(parse: str, where: str) -> Parse:
    try:
        return Parse(parse)
    except ValueError:
        names = ", ".join(p.value for p in Parse)
        raise WorkflowError(f"{where}: parse must be one of {names}, got {parse!r}") from None
