"""The agent: a plan, tools in a loop with a bound, and an answer from all that they found.

Source: Teola Fig. 2b.
"""

from dataclasses import dataclass
from inspect import getdoc
from typing import Final

from heddle.core.errors import WorkflowError
from heddle.core.passages import Passage
from heddle.workflow.connectors import CONNECTOR_S_MAX, Connectors, Lookup
from heddle.workflow.presets import add_answer
from heddle.workflow.prompt_texts import prompt_text
from heddle.workflow.ragraph import DEFAULT_MAX_STEPS, START, RAGraph
from heddle.workflow.template import TURN
from heddle.workflow.workflow import State

SEARCH: Final = "search"
STEPS_MAX: Final = 5
PLAN_TOKENS: Final = 128
ACTION_TOKENS: Final = 48
FOUND_TOPK: Final = 3
_SEARCH_LINE: Final = "finds passages in the documents of the corpus"


def agent(connectors: Connectors, steps_max: int = STEPS_MAX) -> RAGraph:
    """Plan, use tools until the model is done or has used `steps_max` of them, and answer.

    The tools are `search`, which searches the corpus, and the connectors. The model is shown the
    first line of each connector's docstring.

    Raises:
        WorkflowError: `steps_max` is below 1, or a connector has the name of the search.
    """
    if steps_max < 1:
        raise WorkflowError(f"agent: steps_max must be at least 1, got {steps_max}")
    connectors = {name.lower(): connector for name, connector in connectors.items()}
    if SEARCH in connectors:
        raise WorkflowError(f"agent: {SEARCH!r} is the search in the corpus: name it otherwise")
    tools = _described(connectors)
    graph = RAGraph("agent", max_steps=max(DEFAULT_MAX_STEPS, _nodes_run_max(steps_max)))
    graph.add_generation(
        "plan",
        prompt_text("plan").replace("{tools}", tools),
        "plan",
        max_tokens=PLAN_TOKENS,
        parse="text",
    )
    graph.add_generation(
        "act",
        prompt_text("act").replace("{tools}", tools),
        "action",
        max_tokens=ACTION_TOKENS,
        stop=["\n"],
        parse="text",
    )
    graph.add_tool("read", input_of, ["action"], "words")
    graph.add_retrieval(SEARCH, "words", "hits", topk=FOUND_TOPK, allow_fewer=True)
    graph.add_tool("use", UseTool(connectors), ["action"], "found", timeout_s=CONNECTOR_S_MAX)
    graph.add_join("note", ["docs", "hits", "found"], "docs")
    add_answer(graph)
    graph.add_edge(START, "plan").add_edge("plan", "act").add_edge("act", "read")
    graph.add_edge("read", ChooseTool(connectors, steps_max), [SEARCH, "use", "answer"])
    graph.add_edge(SEARCH, "note").add_edge("use", "note").add_edge("note", "act")
    return graph


def tool_of(action: str) -> str:
    """Return the name of the tool that a line asks for: what stands before its first colon."""
    return action.partition(":")[0].strip().lower()


def input_of(action: str) -> str:
    """Return the input that a line has for its tool."""
    return action.partition(":")[2].strip()


@dataclass(frozen=True, slots=True)
class ChooseTool:
    """A callable edge: to the tool that was asked for, or to the answer."""

    connectors: Connectors
    steps_max: int

    def __call__(self, state: State) -> str:
        """Return the next node; a line without a known tool and an input for it ends the loop."""
        name = tool_of(state["action"])
        if state[TURN] > self.steps_max or not state["words"]:
            return "answer"
        if name == SEARCH:
            return SEARCH
        return "use" if name in self.connectors else "answer"


@dataclass(frozen=True, slots=True)
class UseTool:
    """A tool that asks the connector which a line names."""

    connectors: Connectors

    def __call__(self, action: str) -> tuple[Passage, ...]:
        """Return the connector's results as passages.

        Raises:
            InputError: it returned something else.
        """
        name = tool_of(action)
        return Lookup(name, self.connectors[name])(input_of(action))


def _nodes_run_max(steps_max: int) -> int:
    """Return how many nodes run at most where `steps_max` tools are used."""
    each = len(("act", "read", "use", "note"))
    around = len(("plan", "act", "read", "answer"))  # the last line asks for no tool
    return around + each * steps_max


def _described(connectors: Connectors) -> str:
    """Return a line for each tool, as a template shows it."""
    lines = [f"- {SEARCH}: {_SEARCH_LINE}"]
    for name, connector in connectors.items():
        about = (getdoc(connector) or "").partition("\n")[0]
        lines.append(f"- {name}: {about}" if about else f"- {name}")
    return "\n".join(lines).replace("{", "{{").replace("}", "}}")
