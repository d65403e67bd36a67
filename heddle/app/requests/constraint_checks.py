"""Whether a workflow's constraints can be kept here, asked before a request is admitted."""

from functools import cached_property, lru_cache
from typing import Final

from heddle.app.assembly.server_plan import ServerPlan
from heddle.core.errors import ConfigError, InputError
from heddle.core.prompts.constraint import FIELD, Constraint
from heddle.engines.llm.constrained.grammar_text import problem_of
from heddle.engines.llm.constrained.installed import missing
from heddle.engines.llm.constrained.llguidance_grammars import tokenizer_of
from heddle.engines.remote.dialect import constraint_refusal
from heddle.workflow.nodes import GenerationNode
from heddle.workflow.workflow import Workflow

CHECKED_MAX: Final = 256  # constraints whose check is kept


class ConstraintChecks:
    """Refuses what a server's generator can't be held to.

    Args:
        plan: the server's.

    Mutates: reads the model's tokenizer once, for the first constraint.
    """

    def __init__(self, plan: ServerPlan) -> None:
        self.plan = plan

    def check(self, workflow: Workflow) -> None:
        """Refuse a workflow with a constraint that can't be kept.

        Raises:
            InputError: no text can be of that form; the message names the place in a schema.
            ConfigError: this server's model can't be held to one.
        """
        for node in workflow.nodes.values():
            if isinstance(node, GenerationNode) and node.sampling.constraint is not None:
                self._check(node.sampling.constraint, f"node {node.id!r}: ")

    def _check(self, constraint: Constraint, where: str) -> None:
        remote = self.plan.remote.generator
        for server in () if remote is None else remote.servers:
            if problem := constraint_refusal(constraint, server):
                raise ConfigError(f"{where}{problem}")
        if remote is not None:
            return
        if self.inability:
            raise ConfigError(f"{where}{self.inability}")
        if problem := _problem_of(constraint):
            raise InputError(f"{where}{problem}", param=FIELD)

    @cached_property
    def inability(self) -> str:
        """Why the server's own model can't be held to a form; empty where it can."""
        if problem := missing():
            return problem
        if self.plan.generator is None:
            return "constraint: no model writes on this server: name one with --model"
        path = self.plan.generator.directory / "tokenizer.json"
        try:
            tokenizer_of(path)
        except Exception as error:  # the library raises nothing narrower
            return f"constraint: {path} can't be used for constrained text: {error}"
        return ""


@lru_cache(maxsize=CHECKED_MAX)
def _problem_of(constraint: Constraint) -> str:
    return problem_of(constraint)
