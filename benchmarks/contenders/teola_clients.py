"""Teola's baselines over our engines: what they call one after another, and what engines bundle.

Source: Teola §7 (LlamaDist, LlamaDistPC; per-invocation and throughput-oriented scheduling).
"""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.contenders.port_client import PortClient
from heddle.core.passages import Passage
from heddle.core.payloads import EmbedPayload, SearchPayload
from heddle.core.ports import EnginePort, PassageSource, Tokenizer
from heddle.core.results import Hits, Vectors
from heddle.core.system_text import PromptPart

_prompts = itertools.count()  # a prefix cache for each


class BundledClient(PortClient):
    """A client whose engines carry out one call at a time, all its rows together (Teola's PO)."""

    def __init__(
        self,
        ports: Sequence[EnginePort],
        tokenizer: Tokenizer,
        passages: PassageSource,
        salt: str,
        seen: dict[str, tuple[int, int]],
    ) -> None:
        super().__init__(ports, tokenizer, passages, salt, seen)
        self._embedding, self._searching, self._generating = (asyncio.Lock() for _ in range(3))

    async def embed(self, payload: EmbedPayload) -> Vectors:
        """Embed texts once no other call is being embedded."""
        async with self._embedding:
            return await super().embed(payload)

    async def search(self, payload: SearchPayload) -> Hits:
        """Search once no other call is being searched for."""
        async with self._searching:
            return await super().search(payload)

    async def generate(
        self, parts: Sequence[PromptPart], max_tokens: int, cache: str | None = None
    ) -> str:
        """Generate once no other call is being generated."""
        async with self._generating:
            return await super().generate(parts, max_tokens, cache)


@dataclass(frozen=True, slots=True)
class ChainedClient:
    """What one request of LlamaDist sees: its calls run one after another, no prompt is cached."""

    client: PortClient
    nprobe: int | None

    async def retrieve(self, query: str, topk: int) -> tuple[Passage, ...]:
        """Embed a query and search for it."""
        (found,) = await self.client.retrieve_all([query], topk, self.nprobe)
        return found

    async def retrieve_all(self, queries: Sequence[str], topk: int) -> list[tuple[Passage, ...]]:
        """Embed queries and search for them, one query after another."""
        return [await self.retrieve(query, topk) for query in queries]

    async def generate(self, parts: Sequence[PromptPart], max_tokens: int) -> str:
        """Return the model's text for a prompt; not even its own earlier prompt is reused."""
        return await self.client.generate(parts, max_tokens, f"uncached {next(_prompts)}")
