"""The engines as an asyncio programmer would want them: `await embed`, `search`, `generate`.

Used by the hand-written contenders of `workflows`; the lanes, their batching and their prefix
cache are the very ones that Heddle's runtime drives.
"""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from heddle.core.commands import Admit, Release
from heddle.core.errors import EngineError
from heddle.core.frames import Done, Progress
from heddle.core.passages import Passage
from heddle.core.payloads import (
    DecodePayload,
    EmbedPayload,
    Payload,
    PrefillPayload,
    Sampling,
    SearchPayload,
    TextRole,
)
from heddle.core.ports import EnginePort, PassageSource, Tokenizer
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Generated, Hits, KvHandle, Result, Vectors
from heddle.core.system_text import PromptPart
from heddle.core.tasks import Identity, Task

_task_ids = itertools.count(1 << 40)  # far from the runtime's own


class PortClient:
    """One contender's way to the lanes; made on the running loop."""

    def __init__(
        self,
        ports: Sequence[EnginePort],
        tokenizer: Tokenizer,
        passages: PassageSource,
        salt: str,
        seen: dict[str, tuple[int, int]],
    ) -> None:
        self._seen = seen
        self._by_kind = {kind: port for port in ports for kind in port.kinds}
        self._ports = tuple(ports)
        self._tokenizer = tokenizer
        self._passages = passages
        self._salt = salt
        self._waiting: dict[int, asyncio.Future[Result]] = {}
        self._loop = asyncio.get_running_loop()
        for port in self._ports:
            port.subscribe(self._wake)

    async def retrieve_all(
        self, queries: Sequence[str], topk: int, nprobe: int | None = None
    ) -> list[tuple[Passage, ...]]:
        """Embed queries and search for them, in a call each; `nprobe` None = the index's own."""
        texts = tuple(query.strip() for query in queries)
        vectors = await self.embed(EmbedPayload(texts, TextRole.QUERY))
        hits = await self.search(SearchPayload(vectors.values, topk, nprobe))
        found = ([label for label in row if label >= 0] for row in hits.labels.tolist())
        return [tuple(self._passages.passages(labels)) for labels in found]

    async def embed(self, payload: EmbedPayload) -> Vectors:
        """Embed texts in one call."""
        vectors = await self._task(PrimitiveKind.EMBEDDING, payload)
        assert isinstance(vectors, Vectors), vectors
        return vectors

    async def search(self, payload: SearchPayload) -> Hits:
        """Search for vectors in one call."""
        hits = await self._task(PrimitiveKind.SEARCHING, payload)
        assert isinstance(hits, Hits), hits
        return hits

    async def generate(
        self, parts: Sequence[PromptPart], max_tokens: int, cache: str | None = None
    ) -> str:
        """Prefill and decode; the decode rides along with its prefill, as the lane allows.

        `cache` names the prefix cache that is read and written; None = the client's own.
        """
        port = self._by_kind[PrimitiveKind.PREFILLING]
        payload = PrefillPayload(
            self._tokenizer.encode_prompt(parts),
            cache_salt=self._salt if cache is None else cache,
            has_rider=True,
        )
        prefill_id = next(_task_ids)
        prefill = self._send(PrimitiveKind.PREFILLING, payload, prefill_id)
        decode = self._task(
            PrimitiveKind.DECODING, DecodePayload(prefill_id, Sampling(max_tokens=max_tokens))
        )
        _, result = await asyncio.gather(prefill, decode)
        port.send(Release(KvHandle(port.name, port.epoch, prefill_id)))
        assert isinstance(result, Generated), result
        return result.text.strip()

    async def _task(self, kind: PrimitiveKind, payload: Payload) -> Result:
        return await self._send(kind, payload, next(_task_ids))

    def _send(
        self, kind: PrimitiveKind, payload: Payload, task_id: int
    ) -> "asyncio.Future[Result]":
        answered: asyncio.Future[Result] = self._loop.create_future()
        self._waiting[task_id] = answered
        report = 1 if kind is PrimitiveKind.DECODING else 0
        identity = Identity(task_id, kind.value, tenant=self._salt)
        self._by_kind[kind].send(Admit(Task(task_id, kind, identity, payload), report))
        return answered

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        for port in self._ports:
            for frame in port.frames():
                self._seen[port.name] = frame.epoch, frame.number
                for event in frame.events:
                    if isinstance(event, Progress) or event.task_id not in self._waiting:
                        continue
                    answered = self._waiting.pop(event.task_id)
                    if isinstance(event, Done):
                        answered.set_result(event.result)
                    else:
                        answered.set_exception(
                            EngineError(str(event), engine=port.name, request_ids=())
                        )


@dataclass(frozen=True, slots=True)
class AskClient:
    """What one request sees of a client: all its searches scan as many lists."""

    client: PortClient
    nprobe: int | None

    async def retrieve(self, query: str, topk: int) -> tuple[Passage, ...]:
        """Embed a query and search for it."""
        (found,) = await self.retrieve_all([query], topk)
        return found

    async def retrieve_all(self, queries: Sequence[str], topk: int) -> list[tuple[Passage, ...]]:
        """Embed queries and search for them together."""
        return await self.client.retrieve_all(queries, topk, self.nprobe)

    async def generate(self, parts: Sequence[PromptPart], max_tokens: int) -> str:
        """Return the model's text for a prompt."""
        return await self.client.generate(parts, max_tokens)
