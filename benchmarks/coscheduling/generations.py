"""What was generated from which prompt: contenders that do the same work agree on all of it."""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from benchmarks.coscheduling.recorded_work import RecordedWork
from heddle.core.commands import Admit, Command
from heddle.core.frames import Done, Frame
from heddle.core.payloads import DecodePayload, PrefillPayload
from heddle.core.ports import EnginePort
from heddle.core.results import Generated

Tokens = tuple[int, ...]


@dataclass(slots=True)
class Generations:
    """The output of each prompt, as the ports have seen them go by.

    `worked_s` is how long each engine's steps took [s], `work` what requests made them do. `ahead`
    are outputs that were written before the passages of their prompts were certain: some are never
    used.
    """

    outputs: dict[Tokens, Tokens] = field(default_factory=dict)
    ahead: dict[Tokens, Tokens] = field(default_factory=dict)
    worked_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    work: RecordedWork = field(default_factory=RecordedWork)
    _prompts: dict[int, Tokens] = field(default_factory=dict)  # by the prefill's task
    _guesses: set[int] = field(default_factory=set)  # the prefills that are sent ahead
    _decodes: dict[int, int] = field(default_factory=dict)  # the prefill of each decode

    def seen(self, port: EnginePort) -> EnginePort:
        """Return a port whose prompts and outputs are noted here."""
        return cast("EnginePort", _NotedPort(port, self))

    def sent(self, command: Command) -> None:
        """Note a command."""
        self.work.sent(command)
        if not isinstance(command, Admit):
            return
        task = command.task
        if isinstance(task.payload, PrefillPayload):
            self._prompts[task.task_id] = task.payload.token_ids
            self._guesses.discard(task.task_id)  # each runtime counts its tasks from 1
            if task.payload.is_speculative:
                self._guesses.add(task.task_id)
        elif isinstance(task.payload, DecodePayload):
            prefill = task.payload.prefill_task
            self._decodes[task.task_id] = prefill
            if task.payload.resumes:  # behind what was written ahead: that is no prompt
                self._prompts[prefill] = self._prompts[prefill][: -task.payload.resumes]

    def told(self, frame: Frame) -> None:
        """Note a step, and the generations that end with it."""
        self.work.told(frame)
        self.worked_s[frame.lane] += frame.seconds
        for event in frame.events:
            if isinstance(event, Done) and isinstance(event.result, Generated):
                prefill = self._decodes.pop(event.task_id)
                outputs = self.ahead if prefill in self._guesses else self.outputs
                outputs[self._prompts.pop(prefill)] = event.result.token_ids


@dataclass(frozen=True, slots=True)
class Difference:
    """Two outputs of one prompt: how long they are equal, and the tokens that come then."""

    prompt: Tokens
    common: Tokens
    tokens: tuple[int | None, int | None]  # None = it ended there


def differences(one: Generations, other: Generations) -> list[Difference]:
    """Return where the outputs of prompts that both have differ."""
    found = []
    all_of_one, all_of_other = (each.ahead | each.outputs for each in (one, other))
    for prompt in all_of_one.keys() & all_of_other.keys():
        mine, theirs = all_of_one[prompt], all_of_other[prompt]
        if mine == theirs:
            continue
        pairs = itertools.zip_longest(mine, theirs)
        place, tokens = next((n, pair) for n, pair in enumerate(pairs) if pair[0] != pair[1])
        found.append(Difference(prompt, mine[:place], tokens))
    return found


def lacking(one: Generations, other: Generations) -> int:
    """Return how many of the other's prompts one hasn't, not even written ahead."""
    return len(other.outputs.keys() - one.outputs.keys() - one.ahead.keys())


class _NotedPort:
    """A port whose commands and frames are noted."""

    def __init__(self, port: EnginePort, generations: Generations) -> None:
        self._port, self._generations = port, generations

    def __getattr__(self, name: str) -> object:
        return getattr(self._port, name)

    def send(self, command: Command) -> None:
        self._generations.sent(command)
        self._port.send(command)

    def frames(self) -> Sequence[Frame]:
        frames = self._port.frames()
        for frame in frames:
            self._generations.told(frame)
        return frames
