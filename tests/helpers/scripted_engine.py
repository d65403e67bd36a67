"""An adapter's engine that answers from a script and notes who called."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field

from heddle.adapters.values import (
    ChatCall,
    ChatReply,
    EmbedCall,
    Embedded,
    Found,
    Ranked,
    RankedText,
    RerankCall,
    SearchCall,
)
from heddle.app.requests.call_identity import CallIdentity
from heddle.core.passages import Passage

PASSAGES = (
    Passage(1, "mill", "mill", "Ann Reed built the mill in 1823."),
    Passage(2, "ferry", "ferry", "Mary Dunn runs the ferry."),
)


@dataclass(eq=False)
class ScriptedEngine:
    """Answers each chat with what `write` returns, word by word; notes all calls and identities.

    Where `gate` is set, chats wait for it: sync ones for `is_open`.
    """

    write: Callable[[ChatCall], str | ChatReply] = lambda call: "It was Ann Reed."
    name: str = "script"
    calls: list[tuple[object, CallIdentity | None]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    left: int = 0
    gate: asyncio.Event | None = None
    begun: threading.Event = field(default_factory=threading.Event)

    @property
    def nodes(self) -> list[str]:
        return [by.caller.node if by else "" for _, by in self.calls]

    def _pieces(self, call: ChatCall, by: CallIdentity | None) -> list[str | ChatReply]:
        self.calls.append((call, by))
        written = self.write(call)
        if isinstance(written, ChatReply):
            return [written.text, written] if written.text else [written]
        words = [f"{word} " for word in written.split(" ")]
        words[-1] = words[-1].rstrip()
        return [*words, ChatReply(written, prompt_tokens=7, cached_tokens=3, completion_tokens=5)]

    def chat(self, call: ChatCall, by: CallIdentity | None = None) -> Iterator[str | ChatReply]:
        yield from self._pieces(call, by)

    async def achat(
        self, call: ChatCall, by: CallIdentity | None = None
    ) -> AsyncIterator[str | ChatReply]:
        pieces = self._pieces(call, by)
        self.begun.set()
        try:
            if self.gate is not None:
                await self.gate.wait()
            for piece in pieces:
                yield piece
        except (asyncio.CancelledError, GeneratorExit):
            self.left += 1
            raise

    def search(self, call: SearchCall, by: CallIdentity | None = None) -> Found:
        self.calls.append((call, by))
        span = {"ready_s": 1.0, "sent_s": 1.5}
        return Found(PASSAGES[: call.topk], {"spans": [span]})

    async def asearch(self, call: SearchCall, by: CallIdentity | None = None) -> Found:
        return self.search(call, by)

    def embed(self, call: EmbedCall, by: CallIdentity | None = None) -> Embedded:
        self.calls.append((call, by))
        return Embedded([[float(len(text)), 1.0] for text in call.texts])

    async def aembed(self, call: EmbedCall, by: CallIdentity | None = None) -> Embedded:
        return self.embed(call, by)

    def rerank(self, call: RerankCall, by: CallIdentity | None = None) -> Ranked:
        self.calls.append((call, by))
        count = len(call.texts)
        return Ranked(tuple(RankedText(i, (i + 1) / count) for i in reversed(range(count))))

    async def arerank(self, call: RerankCall, by: CallIdentity | None = None) -> Ranked:
        return self.rerank(call, by)

    def cancel_run(self, run: str) -> None:
        self.cancelled.append(run)
