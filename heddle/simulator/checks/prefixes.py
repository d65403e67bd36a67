"""A prompt reuses what its own tenant has sent before, and nothing of others."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from heddle.core.commands import Admit, Command
from heddle.core.frames import Done, Frame, Progress
from heddle.core.payloads import DecodePayload, PrefillPayload
from heddle.core.results import Prefilled
from heddle.simulator.checks.check import Check


@dataclass(slots=True)
class _Sent:
    """A prompt and what was written after it: whose it is, and which tokens."""

    tenant: str
    token_ids: list[int]


@dataclass(slots=True)
class PrefixCheck(Check):
    """Looks whether a tenant's own earlier prompts hold the tokens that a prompt has reused."""

    _prompts: dict[int, _Sent] = field(default_factory=dict)  # by the prefill's task
    _prompt_of: dict[int, int] = field(default_factory=dict)  # by the decode's task
    _known: dict[str, list[_Sent]] = field(default_factory=dict)  # by tenant

    def sent(self, lane: str, command: Command, now_s: float) -> None:
        """Keep a prompt under the tenant that has asked."""
        if not isinstance(command, Admit):
            return
        task = command.task
        if isinstance(task.payload, PrefillPayload):
            tenant = task.identity.tenant
            prompt = _Sent(tenant, list(task.payload.token_ids))
            self._prompts[task.task_id] = prompt
            self._known.setdefault(tenant, []).append(prompt)
        elif isinstance(task.payload, DecodePayload):
            self._prompt_of[task.task_id] = task.payload.prefill_task

    def stepped(self, lane: str, frame: Frame, began_s: float) -> None:
        """Keep what is written, and look at what prompts have reused."""
        for event in frame.events:
            if isinstance(event, Progress) and event.token_ids:
                self._write(event.task_id, event.token_ids)
            elif isinstance(event, Done) and isinstance(event.result, Prefilled):
                self._look(event.task_id, event.result.tokens_reused)

    def _write(self, task_id: int, token_ids: Sequence[int]) -> None:
        self._prompts[self._prompt_of[task_id]].token_ids += token_ids

    def _look(self, task_id: int, tokens_reused: int) -> None:
        own = self._prompts[task_id]
        reused = own.token_ids[:tokens_reused]
        others = (other for other in self._known[own.tenant] if other is not own)
        if reused and not any(other.token_ids[:tokens_reused] == reused for other in others):
            self.complain(
                f"task {task_id} reused {tokens_reused} tokens, and tenant {own.tenant!r} has "
                "sent none that begins like this before"
            )
