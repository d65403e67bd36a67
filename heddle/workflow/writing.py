"""How a workflow's answer is written: length, sampling, system text and prompt, for one request."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from heddle.core.errors import InputError, WorkflowError
from heddle.core.prompts.constraint import Constraint
from heddle.core.texts.text_check import check_unicode
from heddle.workflow.compile import shown_retrieval
from heddle.workflow.nodes import GenerationNode, JoinNode, Node, NodeId
from heddle.workflow.template import Template, parse_template
from heddle.workflow.workflow import Workflow

MAX_TOKENS_MAX: Final = 32_768
TEMPERATURE_MAX: Final = 2.0
SYSTEM_CHARS_MAX: Final = 8_192
PROMPT_CHARS_MAX: Final = 32_768
STOPS_MAX: Final = 16
STOP_CHARS_MAX: Final = 256
SEED_MAX: Final = (1 << 63) - 1
TOP_P_MIN: Final = 1e-6  # above 0, so that a token is left to draw


@dataclass(frozen=True, slots=True)
class Writing:
    """Settings of the generations that write the answer; None leaves one as the workflow has it.

    Args:
        max_tokens: the most tokens of an answer.
        temperature: 0 = greedy.
        system: the text that says what the model is to be.
        prompt: a template with slots such as {docs} and {input}, in the place of the workflow's.
        top_p: tokens are drawn from the likeliest ones that together have this probability.
        seed: equal seeds draw equal tokens.
        stop: texts before which an answer ends, beside those of the workflow.
        constraint: what the text has to be; it, and no stop string of the workflow, ends the text.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    system: str | None = None
    prompt: str | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] | None = None
    constraint: Constraint | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Check the settings among a caller's options.

        Raises:
            InputError: a value can't be used; the message names the field.
        """
        values: dict[str, Any] = {name: given.get(name) for name in cls.__match_args__}
        values["stop"] = _stop_strings(values["stop"])
        found = cls(**values)
        _check_number("max_tokens", found.max_tokens, int, 1, MAX_TOKENS_MAX)
        _check_number("temperature", found.temperature, (int, float), 0, TEMPERATURE_MAX)
        _check_number("top_p", found.top_p, (int, float), TOP_P_MIN, 1)
        _check_number("seed", found.seed, int, 0, SEED_MAX)
        _check_text("system", found.system, SYSTEM_CHARS_MAX)
        _check_text("prompt", found.prompt, PROMPT_CHARS_MAX)
        if found.prompt is not None:
            _parsed(found.prompt)
        if not isinstance(found.constraint, Constraint | None):
            raise InputError(
                "constraint must be a Constraint, as Constraint.json_schema(...) makes it, got "
                f"{type(found.constraint).__name__}"
            )
        return found

    def over(self, other: "Writing") -> "Writing":
        """Return these settings, and the other's where these leave one as it is."""
        own = {name: getattr(self, name) for name in self.__match_args__}
        return replace(other, **{name: value for name, value in own.items() if value is not None})


AS_IT_IS: Final = Writing()


def with_writing(workflow: Workflow, writing: Writing) -> Workflow:
    """Return a workflow whose answer is written so.

    The generations that END may follow get the settings, and but for the prompt those whose text
    may stand in for theirs; others keep their own. A workflow without one stays as it is: see
    `check_writes`.

    Args:
        workflow: stays as it is.
        writing: checked by `Writing.of`.

    Raises:
        InputError: the prompt has a placeholder without a value at that node, or shows no passages
            where the node retrieves while it decodes.
    """
    writers = {} if writing == AS_IT_IS else _writers(workflow)
    if not writers:
        return workflow
    unasked = replace(writing, prompt=None)
    changed: dict[NodeId, Node] = {
        key: _changed(node, workflow, unasked)
        for key, node in _stand_ins(workflow, writers).items()
    }
    changed |= {key: _changed(node, workflow, writing) for key, node in writers.items()}
    return replace(workflow, nodes={**workflow.nodes, **changed})


def check_writes(workflow: Workflow, writing: Writing) -> None:
    """Refuse settings that a request names for a workflow without a generation at its end.

    Raises:
        InputError: there is none, or none is known, as of a function; the message names the
            settings.
    """
    named = [name for name in Writing.__match_args__ if getattr(writing, name) is not None]
    if named and workflow.function is not None:
        raise InputError(
            f"{' and '.join(named)}: workflow {workflow.name!r} is a function, and its answer is "
            "known only when it returns: give it to rag.generate"
        )
    if named and not _writers(workflow):
        raise InputError(
            f"{' and '.join(named)}: no model writes the answer of workflow {workflow.name!r}: "
            "leave it out, or choose a workflow that ends in a generation"
        )


def _writers(workflow: Workflow) -> dict[NodeId, GenerationNode]:
    return {
        key: node
        for key, node in workflow.nodes.items()
        if key in workflow.outputs and isinstance(node, GenerationNode)
    }


def _stand_ins(
    workflow: Workflow, writers: Mapping[NodeId, GenerationNode]
) -> dict[NodeId, GenerationNode]:
    """Return the generations whose text is the answer where one of `writers` isn't needed."""
    found: dict[NodeId, GenerationNode] = {}
    slots = [slot for node in writers.values() for slot in node.if_empty.slots]
    while slots:
        key = workflow.writers.get(slots.pop())
        node = None if key is None else workflow.nodes[key]
        if isinstance(node, JoinNode):
            slots += node.slots
        elif isinstance(node, GenerationNode) and node.id not in found:
            found[node.id] = node
            slots += node.if_empty.slots
    return found


def _changed(node: GenerationNode, workflow: Workflow, writing: Writing) -> GenerationNode:
    sampling = node.sampling
    if writing.max_tokens is not None:
        sampling = replace(sampling, max_tokens=writing.max_tokens)
    if writing.temperature is not None:
        sampling = replace(sampling, temperature=float(writing.temperature))
    if writing.top_p is not None:
        sampling = replace(sampling, top_p=float(writing.top_p))
    if writing.seed is not None:
        sampling = replace(sampling, seed=writing.seed)
    prompt = node.prompt
    if writing.prompt is not None:
        prompt = _parsed(writing.prompt)
        _check_slots(prompt, node, workflow)
        _check_shows_passages(prompt, node, workflow)
        # The stop strings end answers to the workflow's own prompt.
        sampling = replace(sampling, stop=())
    if writing.constraint is not None:
        sampling = replace(sampling, constraint=writing.constraint, stop=())
    if writing.stop is not None:
        sampling = replace(sampling, stop=(*sampling.stop, *writing.stop))
    system = node.system if writing.system is None else writing.system
    return replace(node, prompt=prompt, sampling=sampling, system=system)


def _check_slots(prompt: Template, node: GenerationNode, workflow: Workflow) -> None:
    """Refuse slots that nothing has written when the node begins."""
    before = _before(node.id, workflow)
    written = {slot for slot, writer in workflow.writers.items() if writer in before}
    known = {*node.prompt.slots, *workflow.inputs, *written}
    unknown = [slot for slot in prompt.slots if slot not in known]
    if unknown:
        names = ", ".join(f"{{{'input' if slot == 'query' else slot}}}" for slot in sorted(known))
        wrong = ", ".join(f"{{{slot}}}" for slot in unknown)
        raise InputError(
            f"prompt: workflow {workflow.name!r} has no value for {wrong}; it has {names} "
            "(write {{ and }} for braces)"
        )


def _check_shows_passages(prompt: Template, node: GenerationNode, workflow: Workflow) -> None:
    """Refuse a prompt without the place where a generation of rounds adds passages."""
    nodes, writers = workflow.nodes, workflow.writers
    source = shown_retrieval(node, nodes, writers)
    if node.decode_retrieval is None or source is None:
        return
    if shown_retrieval(replace(node, prompt=prompt), nodes, writers) is None:
        raise InputError(
            f"prompt: workflow {workflow.name!r} adds passages while it answers, so it must show "
            f"{{{source.output}}}"
        )


def _before(node: NodeId, workflow: Workflow) -> set[NodeId]:
    """Return the nodes that have run before a node, by the static edges."""
    found: set[NodeId] = set()
    waiting = [node]
    while waiting:
        target = waiting.pop()
        new = {source for source, to in workflow.edges if to == target} - found
        found |= new
        waiting += new
    return found - {node}


def _parsed(prompt: str) -> Template:
    try:
        return parse_template(prompt, where="prompt")
    except WorkflowError as error:
        raise InputError(str(error)) from None


def _stop_strings(given: object) -> tuple[str, ...] | None:
    """Return stop strings as they are kept; one may be given alone.

    Raises:
        InputError: they can't be used.
    """
    if given is None:
        return None
    texts = (given,) if isinstance(given, str) else given
    if not isinstance(texts, list | tuple) or len(texts) > STOPS_MAX:
        raise InputError(f"stop must be a text, or a list of at most {STOPS_MAX}", param="stop")
    for text in texts:
        if not isinstance(text, str) or not 0 < len(text) <= STOP_CHARS_MAX:
            raise InputError(
                f"stop: each must be a text of 1 to {STOP_CHARS_MAX} characters, got {text!r:.40}",
                param="stop",
            )
        check_unicode(text, "stop")
    return tuple(texts)


def _check_number(
    field: str, value: object, kind: type | tuple[type, ...], low: float, high: float
) -> None:
    if value is None:
        return
    is_number = isinstance(value, kind) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:  # type: ignore[operator]
        word = "an integer" if kind is int else "a number"
        raise InputError(
            f"{field} must be {word} from {low:g} to {high:g}, got {value!r:.40}", param=field
        )


def _check_text(field: str, value: object, chars_max: int) -> None:
    if value is None:
        return
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{field} must be a text that is not empty, got {value!r:.40}")
    if len(value) > chars_max:
        raise InputError(f"{field} has {len(value):,} characters, more than {chars_max:,}")
    check_unicode(value, field)
