import asyncio
import copy
from collections.abc import Sequence

import pytest

from benchmarks.contenders.framework_defaults import blocking
from benchmarks.contenders.hand_written import HAND_WRITTEN
from benchmarks.contenders.workflow_steps import RETRIEVE_ONE, STEPS, Notes, notes_of
from heddle.core.passages import Passage
from heddle.core.system_text import PromptPart

Call = tuple[str, str, int]


class Scripted:
    """A client that notes its calls; every text has lines, every search finds others."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    async def retrieve(self, query: str, topk: int) -> tuple[Passage, ...]:
        (found,) = await self.retrieve_all([query], topk)
        return found

    async def retrieve_all(self, queries: Sequence[str], topk: int) -> list[tuple[Passage, ...]]:
        self.calls += [("retrieve", query.strip(), topk) for query in queries]
        return [
            tuple(
                Passage(number, f"d{number}", "title", f"text {number}")
                for number in range(len(query) % 7, len(query) % 7 + topk)
            )
            for query in queries
        ]

    async def generate(self, parts: Sequence[PromptPart], max_tokens: int) -> str:
        self.calls.append(("generate", repr(parts), max_tokens))
        return "first?\nsecond one?\nthird of them?"


async def run_steps(client: Scripted, name: str) -> str:
    notes = notes_of(client, "What is a loom?")
    for step in STEPS[name]:
        notes = await step.run(notes)
    return notes.answer


@pytest.mark.parametrize("name", HAND_WRITTEN)
def test_steps_make_the_calls_of_the_program_written_by_hand(name: str) -> None:
    by_hand, in_steps = Scripted(), Scripted()
    answer = asyncio.run(HAND_WRITTEN[name](by_hand, "What is a loom?"))
    assert asyncio.run(run_steps(in_steps, name)) == answer
    assert in_steps.calls == by_hand.calls


def test_a_step_on_a_thread_awaits_the_client_on_its_loop() -> None:
    client = Scripted()

    async def run() -> Notes:
        step = blocking(RETRIEVE_ONE)
        return await asyncio.to_thread(step, notes_of(client, "What is a loom?"))

    assert len(asyncio.run(run()).docs) == 5
    assert client.calls == [("retrieve", "What is a loom?", 5)]


def test_notes_are_handed_on_without_a_copy() -> None:
    notes = notes_of(Scripted(), "What is a loom?")
    assert copy.deepcopy({"notes": notes})["notes"] is notes
