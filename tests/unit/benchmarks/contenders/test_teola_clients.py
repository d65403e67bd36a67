import asyncio
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.contenders.port_client import PortClient
from benchmarks.contenders.teola_clients import BundledClient, ChainedClient
from heddle.core.commands import Admit, Command
from heddle.core.frames import Done, Frame
from heddle.core.passages import Passage
from heddle.core.payloads import EmbedPayload, PrefillPayload, SearchPayload, Segment
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import (
    FinishReason,
    Generated,
    Hits,
    KvHandle,
    Prefilled,
    Result,
    Vectors,
)


class Port:
    """Engines of all kinds: each call is answered some turns of the loop later."""

    name, epoch = "all", 1
    kinds = frozenset(
        {
            PrimitiveKind.EMBEDDING,
            PrimitiveKind.SEARCHING,
            PrimitiveKind.PREFILLING,
            PrimitiveKind.DECODING,
        }
    )

    def __init__(self) -> None:
        self.waiting = 0
        self.waiting_most = 0
        self.rows: list[int] = []
        self.salts: list[str] = []
        self._frames: list[Frame] = []
        self._wake: Callable[[], None] = lambda: None

    def subscribe(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def frames(self) -> Sequence[Frame]:
        frames, self._frames = self._frames, []
        return frames

    def send(self, command: Command) -> None:
        if isinstance(command, Admit):
            payload = command.task.payload
            if isinstance(payload, PrefillPayload):
                self.salts.append(payload.cache_salt)
            elif isinstance(payload, EmbedPayload | SearchPayload):
                self.rows.append(payload.rows)
                self.waiting += 1
                self.waiting_most = max(self.waiting_most, self.waiting)
            asyncio.get_running_loop().call_later(0.001, self._answer, command)

    def _answer(self, command: Admit) -> None:
        task = command.task
        self.waiting -= isinstance(task.payload, EmbedPayload | SearchPayload)
        self._frames.append(Frame(self.name, 1, 0.0, (Done(task.task_id, _result(task.payload)),)))
        self._wake()


def _result(payload: object) -> Result:
    if isinstance(payload, EmbedPayload):
        return Vectors(np.zeros((payload.rows, 4), np.float32))
    if isinstance(payload, SearchPayload):
        labels = np.zeros((payload.rows, payload.topk), np.int64)
        return Hits(labels, np.zeros(labels.shape, np.float32))
    if isinstance(payload, PrefillPayload):
        return Prefilled(KvHandle("all", 1, 1), 1, 0)
    return Generated("text", (1,), FinishReason.STOP)


class Tokenizer:
    context_tokens_max = 4096

    def encode_prompt(self, parts: Sequence[object]) -> tuple[Segment, ...]:
        return (Segment((1,)),)


class Passages:
    def passages(self, chunk_ids: Sequence[int]) -> tuple[Passage, ...]:
        return (Passage(0, "d", "title", "text"),)


def client(port: Port, make: type[PortClient]) -> PortClient:
    return make([port], Tokenizer(), Passages(), "salt", {})  # type: ignore[list-item, arg-type]


def retrieved(make: type[PortClient]) -> Port:
    """The port after three retrievals of two queries each at once."""
    port = Port()

    async def run() -> None:
        one = client(port, make)
        await asyncio.gather(*(one.retrieve_all(["a", "b"], 5) for _ in range(3)))

    asyncio.run(run())
    return port


def test_a_bundled_engine_has_one_call_with_all_its_rows() -> None:
    assert retrieved(PortClient).waiting_most == 3
    port = retrieved(BundledClient)
    assert port.waiting_most <= 2  # one that embeds, one that searches
    assert port.rows == [2] * 6


def test_a_chained_request_searches_for_one_query_after_another() -> None:
    port = Port()

    async def run() -> int:
        found = await ChainedClient(client(port, PortClient), None).retrieve_all(["a", "b", "c"], 5)
        return len(found)

    assert asyncio.run(run()) == 3
    assert port.waiting_most == 1
    assert port.rows == [1] * 6


def test_a_chained_request_shares_no_prefix_with_any() -> None:
    port = Port()

    async def run() -> None:
        one = client(port, PortClient)
        for chained in (ChainedClient(one, None), ChainedClient(one, None)):
            await chained.generate(["a prompt"], 8)
            await chained.generate(["a prompt"], 8)
        await one.generate(["a prompt"], 8)

    asyncio.run(run())
    assert len(set(port.salts)) == 5
    assert port.salts[-1] == "salt"
