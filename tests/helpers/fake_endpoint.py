"""An OpenAI-like server under a test's control: it answers, or misbehaves in one of many ways."""

import asyncio
import base64
import contextlib
import json
import re
import threading
import zlib
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Self

END = b"0\r\n\r\n"
DONE_EVENT = b"data: [DONE]\n\n"
MODEL = "fake-model"
LOOP_TURNS_TO_ACCEPT = 100


class Step(Enum):
    """What a reply does between its bytes."""

    HANG = "hang"  # sends no more until the client hangs up
    CUT = "cut"  # breaks the connection
    CLOSE = "close"  # ends the connection in good order


Reply = Sequence[bytes | Step]


@dataclass(frozen=True)
class Asked:
    """A request that arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class FakeEndpoint:
    """Listens on a free port of 127.0.0.1, in a thread of its own.

    `replies` are sent to the next generations, one each, and `words` to those after them, or what
    `writes` makes of a chat's last message. `others` has replies to other calls, by path. A reply
    that `instead` gives to a call comes before all of these.
    """

    words: Sequence[str] = ("Ada ", "keeps ", "it.")
    models: Sequence[str] | None = (MODEL,)
    owner: str = "fake"
    has_chat: bool = True
    dims: int = 0
    ranks: bool = False
    writes: Callable[[str], str] | None = None
    replies: deque[Reply] = field(default_factory=deque)
    others: dict[str, Reply] = field(default_factory=dict)
    instead: Callable[[Asked], Reply | None] = lambda asked: None
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    hung_up: threading.Event = field(default_factory=threading.Event)
    hanging: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._serving: set[asyncio.Task[Any] | None] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._call(
            asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=1 << 24)
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        """Its address, as a user names it."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def generations(self) -> list[Asked]:
        """The requests for text; an empty one only asks whether there is such a call."""
        return [a for a in self.asked if a.path.endswith("completions") and a.body]

    def _call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _stop(self) -> None:
        for _ in range(LOOP_TURNS_TO_ACCEPT):
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            if tasks <= self._serving:
                break  # earlier, a connection that is being accepted would be left open
            await asyncio.sleep(0)
        self._server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._serving.add(asyncio.current_task())
        ends = (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError)
        with contextlib.suppress(*ends):
            while True:
                asked = await _read(reader)
                self.asked.append(asked)
                if not await self._answer(asked, reader, writer):
                    break
        with contextlib.suppress(*ends):
            writer.close()
            await writer.wait_closed()

    async def _answer(
        self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        for step in self.instead(asked) or self._reply(asked):
            if step is Step.HANG:
                self.hanging.set()
                try:
                    await reader.read(1)
                finally:  # also where the connection is broken
                    self.hung_up.set()
                return False
            if step is Step.CUT:
                writer.transport.abort()
                return False
            if step is Step.CLOSE:
                return False
            writer.write(step)
            await writer.drain()
        return True

    def _reply(self, asked: Asked) -> Reply:
        call = asked.path.removeprefix("/v1")
        if call in self.others:
            return self.others[call]
        if call == "/models" and self.models is not None:
            entries = [{"id": name, "owned_by": self.owner} for name in self.models]
            return plain(200, {"object": "list", "data": entries})
        if call == "/embeddings" and self.dims:
            return plain(200, embeddings(asked.body, self.dims))
        if call == "/rerank" and self.ranks:
            return plain(200, ranking(asked.body))
        if call == "/completions" or (call == "/chat/completions" and self.has_chat):
            if not asked.body:
                return plain(400, {"error": {"message": "no messages"}})
            if self.replies:
                return self.replies.popleft()
            if self.writes is not None:
                return answer((self.writes(asked.body["messages"][-1]["content"]),))
            return answer(self.words)
        return plain(404, {"error": {"message": "not found"}})


def plain(status: int, body: object, headers: str = "", kind: str = "application/json") -> Reply:
    """Return a reply with a whole body: JSON, or text as it is."""
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    head = (
        f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n{headers}"
    )
    return (head.encode() + b"\r\n" + data,)


def stream_head(kind: str = "text/event-stream") -> bytes:
    """Return the head of a stream in chunks."""
    return f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()


def chunk(data: bytes) -> bytes:
    """Return bytes as one chunk of HTTP."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(value: object) -> bytes:
    """Return a value as one event, in one chunk."""
    return chunk(b"data: " + json.dumps(value).encode() + b"\n\n")


def piece(text: str, reason: str | None = None) -> bytes:
    """Return a piece of an answer, as both kinds of call have it."""
    choice = {"index": 0, "delta": {"content": text}, "text": text, "finish_reason": reason}
    return event({"object": "chat.completion.chunk", "choices": [choice]})


def usage(prompt: int, written: int, cached: int = 0) -> bytes:
    """Return the event that counts tokens."""
    counts = {
        "prompt_tokens": prompt,
        "completion_tokens": written,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    return event({"choices": [], "usage": counts})


def embeddings(body: dict[str, Any], dims: int) -> dict[str, Any]:
    """Return vectors that stand for the words of each text, in the format that is asked for."""
    data = []
    for index, text in enumerate(body["input"]):
        values = array("f", [0.001] * dims)
        for word in re.findall(r"\w+", text.lower()):
            values[zlib.crc32(word.encode()) % dims] += 1.0
        is_base64 = body.get("encoding_format") == "base64"
        vector = base64.b64encode(values.tobytes()).decode() if is_base64 else list(values)
        data.append({"object": "embedding", "index": index, "embedding": vector})
    data.reverse()  # the order is no promise: each names its text
    return {"object": "list", "data": data, "usage": {"prompt_tokens": 7, "total_tokens": 7}}


def ranking(body: dict[str, Any]) -> dict[str, Any]:
    """Return a score for each document: how many of its words are the query's."""
    wanted = set(re.findall(r"\w+", body["query"].lower()))
    shared = [len(wanted & set(re.findall(r"\w+", d.lower()))) for d in body["documents"]]
    order = sorted(range(len(shared)), key=lambda index: -shared[index])
    return {"results": [{"index": i, "relevance_score": shared[i] / 10} for i in order]}


def answer(words: Sequence[str], reason: str = "stop") -> Reply:
    """Return a whole answer in good order, its words one event each."""
    return (
        stream_head(),
        *(piece(word) for word in words),
        piece("", reason),
        usage(100, len(words), 40),
        chunk(DONE_EVENT) + END,
    )


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ")
    pairs = (line.partition(":") for line in head[1:] if line)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    data = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(method, path, headers, json.loads(data) if data else None)
