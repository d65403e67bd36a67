"""Workflows whose prompts and texts have the lengths of recorded requests.

HedraRAG's five are the shipped ones, with recorded lengths. Teola's four and FLARE are drawn here:
what they have in common with the five (instructions, passages, questions) is recorded, the rest is
as their papers describe it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.virtual.recorded_requests import CHUNK, SLOT, RecordedPrompt, RecordedRequest
from heddle.simulator.scripted.counted_text import LINES_MARK
from heddle.workflow.compile import Draft, compile_draft
from heddle.workflow.nodes import GenerationNode, IndexingNode, Node, Parse, RetrievalNode
from heddle.workflow.presets import PRESETS
from heddle.workflow.ragraph import END, START, RAGraph
from heddle.workflow.template import TURN, Slot, Template
from heddle.workflow.workflow import State, Workflow

FIVE: Final = ("oneshot", "hyde", "multistep", "irg", "recomp")
CHUNKS_BROUGHT: Final = 12  # with a document, of as many tokens as passages have
CHUNK_TOKENS: Final = 120
CHARS_PER_TOKEN: Final = 4
INSTRUCTION_TOKENS: Final = 40
TEMPLATE_TOKENS: Final = 2  # that the virtual tokenizer puts around a prompt


@dataclass(frozen=True, slots=True)
class Script:
    """A workflow whose texts have settled lengths, and a question for it.

    `question_tokens` is the question's length; `other_share` is how much of its hits differs from
    query to query [%]. `brings` are the texts that come with a request.
    """

    workflow: Workflow
    question_tokens: int
    other_share: int
    brings: int = 0

    def inputs(self, number: int) -> Mapping[str, object]:
        """Return the inputs of the request with this number."""
        question = f"q{number}~{self.other_share}*{self.question_tokens}"
        if not self.brings:
            return {"query": question}
        chunk_ids = tuple(range(number * self.brings, (number + 1) * self.brings))
        texts = tuple(_chunk(chunk_id) for chunk_id in chunk_ids)
        return {"query": question, "texts": texts, "chunk_ids": chunk_ids}

    def scanning(self, nprobe: int | None) -> "Script":
        """Return the script whose searches scan this many lists."""
        nodes = {
            key: replace(node, nprobe=nprobe) if isinstance(node, RetrievalNode) else node
            for key, node in self.workflow.nodes.items()
        }
        return replace(self, workflow=replace(self.workflow, nodes=nodes))

    def written(self, node: str) -> int:
        """Return how many tokens a node writes; 0 where the workflow has no such generation."""
        found = self.workflow.nodes.get(node)
        return found.sampling.max_tokens if isinstance(found, GenerationNode) else 0

    def writing(self, node: str, tokens: int) -> "Script":
        """Return the script with a generation that writes as many tokens.

        A list keeps its number of items.
        """
        known = self.workflow.nodes[node]
        assert isinstance(known, GenerationNode), f"{node!r} writes nothing"
        factor = tokens / known.sampling.max_tokens
        sampling = replace(known.sampling, max_tokens=tokens)
        parts = tuple(_with_lines(part, factor) for part in known.prompt.parts)
        changed = replace(known, sampling=sampling, prompt=Template(parts))
        nodes = {**self.workflow.nodes, node: changed}
        return replace(self, workflow=replace(self.workflow, nodes=nodes))


def _with_lines(part: str | Slot, factor: float) -> str | Slot:
    if isinstance(part, Slot) or not part.startswith(LINES_MARK):
        return part
    every, _, rest = part.removeprefix(LINES_MARK).partition(" ")
    return f"{LINES_MARK}{max(1, math.ceil(factor * int(every)))} {rest}"


def recorded_script(request: RecordedRequest) -> Script:
    """Return a shipped workflow whose prompts and texts are as long as a recorded request's."""
    workflow = PRESETS[request.workflow]().compile()
    first: dict[str, RecordedPrompt] = {}
    for prompt in request.prompts:
        first.setdefault(prompt.node, prompt)  # of a loop's turns
    items = max(request.queries)
    nodes = {
        key: _scripted(node, first[str(key)], items) if isinstance(node, GenerationNode) else node
        for key, node in workflow.nodes.items()
    }
    scripted = replace(workflow, nodes=nodes)
    return Script(scripted, request.question_tokens, request.other_share())


def _scripted(node: GenerationNode, prompt: RecordedPrompt, items: int) -> Node:
    """Return a node with a recorded prompt's pieces, which writes as many tokens."""
    slots = iter([name for name in node.prompt.slots if name not in ("docs", "query")] + ["query"])
    parts: list[str | Slot] = []
    around = max(0, prompt.around - TEMPLATE_TOKENS)
    if node.parse is Parse.LINES:
        parts.append(f"{LINES_MARK}{max(1, -(-prompt.written // items))} ")
    for role, tokens in prompt.pieces:
        if role == CHUNK:
            if Slot("docs") not in parts:
                parts.append(Slot("docs"))
        elif role == SLOT:
            parts.append(Slot(next(slots)))
        else:
            parts.append(f" {node.id}-{len(parts)}*{tokens + around} ")
            around = 0
    sampling = replace(node.sampling, max_tokens=max(1, prompt.written), stop=())
    return replace(node, prompt=Template(tuple(parts)), sampling=sampling, fence=False)


# -- Teola's four, and FLARE ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lengths:
    """What drawn workflows take from recorded ones: how long texts are [tokens]."""

    answer: int
    summary: int
    plan: int


def drawn_scripts(lengths: Lengths, question_tokens: int, other_share: int) -> dict[str, Script]:
    """Return the workflows that are drawn here, by name."""
    return {
        name: Script(
            draw(lengths),
            question_tokens,
            other_share,
            brings=CHUNKS_BROUGHT if draw is doc_qa_naive else 0,
        )
        for name, draw in DRAWN.items()
    }


def doc_qa_naive(lengths: Lengths) -> Workflow:
    """Store the chunks of a document, search it three times, answer from each, join the answers.

    (Teola §2, document question answering with tree synthesis)
    """
    graph = RAGraph("doc_qa_naive")
    for part in range(3):
        graph.add_retrieval(f"find_{part}", f"{{query}} part{part}", f"docs_{part}", topk=2)
        _generation(graph, f"read_{part}", f"{{docs_{part}}} {{query}}", lengths.answer)
    shown = " ".join(f"{{read_{part}}}" for part in range(3))
    _generation(graph, "join", f"{shown} {{query}}", lengths.answer)
    drawn = graph.compile()
    index = IndexingNode("index", "texts", "chunk_ids", "stored")
    nodes: dict[int | str, Node] = {index.id: index, **drawn.nodes}
    edges = (*drawn.edges, *((index.id, f"find_{part}") for part in range(3)))
    inputs = frozenset({"query", "texts", "chunk_ids"})
    return compile_draft(
        Draft("doc_qa_naive", nodes, (index.id,), ("join",), tuple(edges), (), inputs, 64)
    )


def doc_qa_advanced(lengths: Lengths) -> Workflow:
    """Write three queries, search for each, answer from the first passages, refine by the others.

    (Teola §2, document question answering with query expansion and refine synthesis)
    """
    graph = RAGraph("doc_qa_advanced")
    every = -(-lengths.plan // 3)
    _generation(
        graph, "expand", f"{LINES_MARK}{every} {{query}}", lengths.plan, parse=Parse.LINES.value
    )
    graph.add_retrieval("find", "{query} {expand}", "docs", topk=3, collect=True)
    _generation(graph, "answer", "{docs} {query}", lengths.answer)
    _generation(graph, "refine", "{docs} {answer} {query}", lengths.answer)
    return graph.compile()


def search_engine(lengths: Lengths) -> Workflow:
    """Guess an answer, judge whether it needs a search, call the search engine, answer.

    (Teola §2, search-engine-empowered generation)
    """
    graph = RAGraph("search_engine")
    _generation(graph, "proxy", "{query}", lengths.answer)
    _generation(graph, "judge", "{proxy} {query}", 2)
    graph.add_tool("call", _found, ["query", "judge"], "web")
    _generation(graph, "answer", "{web} {query}", lengths.answer)
    return graph.compile()


def agent(lengths: Lengths) -> Workflow:
    """Plan, call a tool and search side by side, reflect, twice, then answer. (Teola §2)"""
    graph = RAGraph("agent")
    _generation(graph, "plan", "{query} {note}", lengths.plan)
    graph.add_tool("call", _called, ["plan"], "observed")
    graph.add_retrieval("find", "{query} {plan}", "docs", topk=3)
    _generation(graph, "reflect", "{docs} {observed} {query}", lengths.answer, output="note")
    graph.add_edge(START, "plan").add_edge("plan", "call").add_edge("plan", "find")
    graph.add_edge("call", "reflect").add_edge("find", "reflect")
    graph.add_edge("reflect", _twice, targets=["plan"])
    return graph.compile()


def flare(lengths: Lengths) -> Workflow:
    """Search, then answer, and search again after every third of the text. (Jiang et al. 2023)"""
    graph = RAGraph("flare")
    graph.add_retrieval("find", topk=3)
    graph.add_generation(
        "answer",
        f"flare*{INSTRUCTION_TOKENS} {{docs}} {{query}}",
        "answer",
        max_tokens=lengths.summary,
        retrieve_every=max(1, -(-lengths.summary // 3)),
        retrievals_max=2,
        added_max=4,
        fence=False,
    )
    return graph.compile()


DRAWN: Final[Mapping[str, Callable[[Lengths], Workflow]]] = {
    "doc_qa_naive": doc_qa_naive,
    "doc_qa_advanced": doc_qa_advanced,
    "search_engine": search_engine,
    "agent": agent,
    "flare": flare,
}
TEN: Final = (*FIVE, *DRAWN)


def _generation(
    graph: RAGraph,
    node: str,
    prompt: str,
    tokens: int,
    *,
    output: str | None = None,
    parse: str = Parse.TEXT.value,
) -> None:
    text = f"{node}*{INSTRUCTION_TOKENS} {prompt}"
    graph.add_generation(node, text, output or node, max_tokens=tokens, parse=parse, fence=False)


def _chunk(chunk_id: int) -> str:
    """Return a chunk's text: of as many tokens and characters as a passage's."""
    word = f"t{chunk_id}*{CHUNK_TOKENS}"
    return "_" * (CHARS_PER_TOKEN * CHUNK_TOKENS - len(word)) + word


def _found(query: object, judge: object) -> str:
    return f"found*{3 * CHUNK_TOKENS}"


def _called(plan: object) -> str:
    return f"observed*{CHUNK_TOKENS}"


def _twice(state: State) -> object:
    return END if int(str(state[TURN])) >= 2 else "plan"


def means(requests: Sequence[RecordedRequest]) -> Lengths:
    """Return the mean lengths of recorded answers, summaries and lists."""
    return Lengths(
        answer=_mean(requests, "oneshot", "answer"),
        summary=_mean(requests, "recomp", "compress"),
        plan=_mean(requests, "multistep", "decompose"),
    )


def _mean(requests: Sequence[RecordedRequest], workflow: str, node: str) -> int:
    written = [
        prompt.written
        for request in requests
        if request.workflow == workflow
        for prompt in request.prompts
        if prompt.node == node
    ]
    return max(1, round(sum(written) / len(written)))
