"""What a hand-written program sends to the engines, the runtime without its passes sends as well.

`workflows --simulated` lets that runtime stand for asyncio programs. Here the programs themselves
run on the virtual clock, beside it: the same calls reach the same engines at the same times.
"""

import asyncio

import pytest

from benchmarks.contenders.hand_written import HAND_WRITTEN
from benchmarks.contenders.port_client import AskClient, PortClient
from benchmarks.virtual.clocked_server import VirtualAsk
from benchmarks.virtual.contenders import FIFO, SAME, WAYS
from benchmarks.virtual.machine import Machine, llm_limits
from benchmarks.virtual.server import VirtualServer
from heddle.app.models.model_source import model_directory
from heddle.app.models.prompt_files import prompts_of
from heddle.core.commands import Admit
from heddle.core.payloads import DecodePayload, EmbedPayload, PrefillPayload, SearchPayload
from heddle.simulator.scripted.counted_text import CountingTokenizer
from heddle.simulator.scripted.retrieval import ScriptedPassages
from heddle.workflow.model_prompts import with_model_prompts
from heddle.workflow.presets import PRESETS

LENGTHS = (90, 120, 150)
MACHINE = Machine(
    llm_s={"call": 3e-3, "decode_tokens": 8e-4, "prefill_tokens": 1.5e-4, "context_tokens": 1e-6},
    embedding_s={"call": 5e-3, "tokens": 2e-4, "texts": 1e-4},
    vector_s={"call": 1e-4, "lists": 2e-3, "scans": 1e-5, "rows": 5e-4},
    nlist=64,
    nprobe_default=24,
    llm=llm_limits(16, 512, 1 << 16),
)
ARRIVALS = tuple(
    (0.11 * number, name, f"q{number}~40*18 lines:{7 + number % 5}")
    for number, name in enumerate(4 * tuple(HAND_WRITTEN))
)


class Noted:
    """An engine whose calls are noted, with their times."""

    def __init__(self, engine, timeline, calls):
        self._engine, self._timeline, self._calls = engine, timeline, calls

    def __getattr__(self, name):
        return getattr(self._engine, name)

    def apply(self, command):
        if isinstance(command, Admit):
            told = (round(self._timeline.now_s(), 9), self._engine.name)
            self._calls.append((*told, *content(command.task.payload)))
        self._engine.apply(command)


def content(payload):
    if isinstance(payload, PrefillPayload):
        return "prefill", payload.token_ids
    if isinstance(payload, DecodePayload):
        return "decode", payload.sampling.max_tokens
    if isinstance(payload, EmbedPayload):
        return "embed", payload.texts
    assert isinstance(payload, SearchPayload)
    return "search", payload.rows, payload.topk


def noted_server(way):
    server, calls = VirtualServer(MACHINE, way, LENGTHS), []
    for port in server.ports:
        port.engine = Noted(port.engine, server.timeline, calls)
    return server, calls


def sent_by_programs(way):
    """Run the programs: whenever one waits, the virtual clock goes on."""
    server, calls = noted_server(way)

    async def settle():
        for _ in range(20):  # until each program waits for an engine again
            await asyncio.sleep(0)

    async def main():
        tokenizer = CountingTokenizer(MACHINE.llm.context_tokens_max)
        client = PortClient(server.ports, tokenizer, ScriptedPassages(LENGTHS), "", {})
        running = []

        def begin(name, question):
            program = HAND_WRITTEN[name](AskClient(client, None), question)
            running.append(asyncio.ensure_future(program))

        for at_s, name, question in ARRIVALS:
            server.timeline.at(at_s, lambda n=name, q=question: begin(n, q))
        while server.timeline.step():
            await settle()
        await asyncio.gather(*running)

    asyncio.run(main())
    return calls


def sent_by_runtime(way):
    server, calls = noted_server(way)
    prompts = prompts_of(model_directory("reader"))
    workflows = {name: with_model_prompts(PRESETS[name]().compile(), prompts) for name in PRESETS}
    server.serve([VirtualAsk(workflows[n], {"query": q}, at_s) for at_s, n, q in ARRIVALS])
    return calls


@pytest.mark.parametrize("contender", [FIFO, SAME])
def test_the_same_calls_come_at_the_same_times(contender):
    programs, runtime = sent_by_programs(WAYS[contender]), sent_by_runtime(WAYS[contender])
    assert len(programs) > 4 * len(ARRIVALS)
    assert any(call[2] == "search" and call[3] > 1 for call in programs)
    assert sorted(map(repr, runtime)) == sorted(map(repr, programs))
