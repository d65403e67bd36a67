"""The prompts that a model wants in the place of the ready-made workflows' own."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from heddle.core.errors import ConfigError, WorkflowError
from heddle.workflow.nodes import (
    ROLE_SLOTS,
    GenerationNode,
    Node,
    NodeId,
    PrimingNode,
    PromptRole,
)
from heddle.workflow.template import Slot, Template, parse_template
from heddle.workflow.workflow import Workflow

TOKENS_MAX: Final = 32_768
FIELDS: Final = ("prompt", "max_tokens", "stop", "fence")


@dataclass(frozen=True, slots=True)
class ModelPrompt:
    """A model's own prompt for one role.

    Args:
        prompt: the template.
        max_tokens: the most tokens of the text; None = as the workflow has it.
        stop: strings that end the text; None = as the workflow has them.
        fence: whether a line stands behind the passages; a model that was trained without says no.
    """

    prompt: Template
    max_tokens: int | None = None
    stop: tuple[str, ...] | None = None
    fence: bool = True


ModelPrompts = Mapping[PromptRole, ModelPrompt]


def model_prompts(content: Mapping[str, object], where: str) -> ModelPrompts:
    """Return the prompts that a JSON object holds, by role.

    Args:
        content: {"answer": {"prompt": "...", "max_tokens": 32, "stop": ["\\n"]}, ...};
            "fence": false leaves out the line behind the passages.
        where: the file, for the error message.

    Raises:
        ConfigError: a role or a field is unknown, or a value can't be used.
    """
    found = {}
    for name, value in content.items():
        role = next((role for role in PromptRole if role.value == name), None)
        if role is None:
            roles = ", ".join(role.value for role in PromptRole)
            raise ConfigError(f"{where}: {name!r} is no prompt's role; there are {roles}")
        found[role] = _prompt(value, role, f"{where}: {name}")
    return found


def with_model_prompts(workflow: Workflow, prompts: ModelPrompts) -> Workflow:
    """Return a workflow with the model's prompts for the roles that its generations have.

    Chunks are primed behind what precedes the passages in the model's prompt for answers.
    """
    changed: dict[NodeId, Node] = {}
    for key, node in workflow.nodes.items():
        if isinstance(node, GenerationNode):
            own = None if node.role is None else prompts.get(node.role)
            if own is not None:
                changed[key] = _changed(node, own)
        elif isinstance(node, PrimingNode) and PromptRole.ANSWER in prompts:
            changed[key] = replace(node, prefix=_prefix(prompts[PromptRole.ANSWER].prompt))
    return replace(workflow, nodes={**workflow.nodes, **changed}) if changed else workflow


def _prefix(prompt: Template) -> str:
    before = prompt.parts[: prompt.parts.index(Slot("docs"))]
    return "".join(part for part in before if isinstance(part, str))


def _changed(node: GenerationNode, own: ModelPrompt) -> GenerationNode:
    sampling = node.sampling
    if own.max_tokens is not None:
        sampling = replace(sampling, max_tokens=own.max_tokens)
    if own.stop is not None:
        sampling = replace(sampling, stop=own.stop)
    fence = node.fence and own.fence
    prompt = own.prompt.renamed(node.prompt.numbered)
    return replace(node, prompt=prompt, sampling=sampling, fence=fence)


def _prompt(value: object, role: PromptRole, where: str) -> ModelPrompt:
    if not isinstance(value, dict) or not set(value) <= set(FIELDS):
        raise ConfigError(f"{where} must be an object of {', '.join(FIELDS)}")
    max_tokens, stop = value.get("max_tokens"), value.get("stop")
    fence = value.get("fence", True)
    if max_tokens is not None and not (type(max_tokens) is int and 1 <= max_tokens <= TOKENS_MAX):
        raise ConfigError(f"{where}: max_tokens must be an integer from 1 to {TOKENS_MAX}")
    is_list = isinstance(stop, list) and all(isinstance(one, str) and one for one in stop)
    if stop is not None and not is_list:
        raise ConfigError(f"{where}: stop must be a list of texts")
    if not isinstance(fence, bool):
        raise ConfigError(f"{where}: fence must be true or false")
    try:
        prompt = parse_template(value.get("prompt", ""), where=f"{where}: prompt")
    except WorkflowError as error:
        raise ConfigError(str(error)) from None
    if set(prompt.slots) != ROLE_SLOTS[role]:
        names = ", ".join(f"{{{slot}}}" for slot in sorted(ROLE_SLOTS[role]))
        raise ConfigError(f"{where}: prompt must have the placeholders {names}, and no others")
    return ModelPrompt(prompt, max_tokens, None if stop is None else tuple(stop), fence)
