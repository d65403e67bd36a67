"""Requests that a server must accept, drawn at random: all routes, workflows and options."""

import itertools
import random
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlencode

from tools.attacks.configuration import NEED_NO_MODEL, Configuration
from tools.attacks.exchange import Request

PAGES: Final = (
    "/v1/workflows",
    "/v1/live",
    "/health",
    "/ready",
    "/version",
    "/metrics",
    "/openapi.json",
    "/v1/models",
    "/v1/models/corpus",
)
BODIES: Final = (
    "/v1/ask",
    "/v1/search",
    "/v1/embeddings",
    "/v1/documents",
    "/v1/chat/completions",
    "/v1/completions",
)
ROUTES: Final = frozenset(
    [f"POST {path}" for path in BODIES] + [f"GET {path}" for path in PAGES]
) | {"DELETE /v1/documents"}
QUESTIONS: Final = (
    "Who keeps the lighthouse on Rock {}?",
    "When was the lighthouse on Rock {} built?",
    "rock {}",
    "Ist auf Fels {} ein Wärter? 灯台守は誰ですか",
    "x" * 80 + " {}",
)
TOKENS: Final = (1, 2, 8, 16)
KINDS: Final = ("ask", "search", "embed", "page", "put", "delete", "chat", "complete")
WEIGHTS: Final = (8, 4, 3, 2, 2, 1, 3, 1)
PUT_MAX: Final = 20  # documents of a client at once: memory that a corpus takes is not lost memory


class GoodRequests:
    """An endless source of requests for one server; one thread reads it.

    Args:
        server: whose routes and workflows are used.
        seed: of the draws.
    """

    def __init__(self, server: Configuration, seed: int) -> None:
        self._random = random.Random(seed)
        self._server = server
        self._workflows = itertools.cycle(server.workflows)
        self._pages = itertools.cycle(PAGES)
        self._name = f"good-{seed}"
        self._number = 0
        self._put: list[str] = []

    def __iter__(self) -> Iterator[tuple[Request, str]]:
        """Yield requests, each with the workflow that it runs; "" = none. All kinds come first."""
        for workflow in self._server.workflows:
            yield self.ask(workflow), workflow
        for kind in (*KINDS, *["page"] * len(PAGES)):
            yield from self._of(kind)
        while True:
            yield from self._of(self._random.choices(KINDS, WEIGHTS)[0])

    def _of(self, kind: str) -> Iterator[tuple[Request, str]]:
        if kind == "ask":
            workflow = next(self._workflows)
            yield self.ask(workflow), workflow
        else:
            yield self._other(kind), ""

    def ask(self, workflow: str) -> Request:
        """Return a question to a workflow."""
        fields: dict[str, object] = {"question": self._question(), "workflow": workflow}
        self._draw(fields, "stream", (True, False))
        self._draw(fields, "timeline", (True, False))
        self._draw(fields, "topk", (1, 2, 3))  # a prompt must fit the model
        self._draw(fields, "hybrid", (True, False, None))
        self._draw(fields, "optimizations", ("off", "exact"))
        self._draw_common(fields)
        if workflow not in NEED_NO_MODEL:
            self._draw(fields, "temperature", (0, 0.7, 2))
            self._draw(fields, "system", ("You keep a lighthouse.",))
            fields["max_tokens"] = self._random.choice(TOKENS)
        return Request.of_json("/v1/ask", fields)

    def _other(self, kind: str) -> Request:
        if kind == "search":
            return self._search()
        if kind == "embed":
            return self._embed()
        if kind in ("chat", "complete"):
            return self._openai(kind)
        if kind == "page" or not self._server.takes_changes:
            return Request("GET", next(self._pages))
        is_deletion = len(self._put) >= PUT_MAX if kind == "put" else bool(self._put)
        return self._delete() if is_deletion else self._document()

    def _search(self) -> Request:
        fields: dict[str, object] = {"query": self._question()}
        self._draw(fields, "topk", (1, 3, 1_000))
        self._draw(fields, "hybrid", (True, False))
        self._draw_common(fields)
        return Request.of_json("/v1/search", fields)

    def _embed(self) -> Request:
        texts = [self._question() for _ in range(self._random.randrange(1, 5))]
        fields: dict[str, object] = {"input": texts[0] if len(texts) == 1 else texts}
        self._draw(fields, "encoding_format", ("float", "base64"))
        self._draw(fields, "role", ("plain", "query", "passage"))
        self._draw(fields, "long_texts", ("cut", "window"))
        self._draw(fields, "model", ("text-embedding-3-small",))
        self._draw_common(fields)
        return Request.of_json("/v1/embeddings", fields)

    def _openai(self, kind: str) -> Request:
        fields: dict[str, object] = {"model": "corpus", "max_tokens": self._random.choice(TOKENS)}
        self._draw(fields, "stream", (True, False))
        self._draw(fields, "temperature", (0, 0.7))
        self._draw(fields, "chat_id", ("a field of no API",))
        self._draw(fields, "heddle", ({"inline_sources": True}, {"topk": 2, "tenant": "ann"}))
        if kind == "complete":
            return Request.of_json("/v1/completions", {**fields, "prompt": self._question()})
        parts = [{"type": "text", "text": self._question()}]
        content = self._random.choice([self._question(), parts])
        system = [{"role": "system", "content": "You keep a lighthouse."}]
        turns = [*self._random.choice([[], system]), {"role": "user", "content": content}]
        return Request.of_json("/v1/chat/completions", {**fields, "messages": turns})

    def _document(self) -> Request:
        self._number += 1
        fields: dict[str, object] = {
            "id": f"{self._name}-{self._number}",
            "text": f"The boat {self._number} of {self._name} carries {self._question()}",
        }
        self._draw(fields, "title", ("A boat", ""))
        self._draw(fields, "collection", ("boats",))
        self._draw(fields, "metadata", ({"kind": "boat"}, {"kind": "boat", "length": 7}))
        self._put.append(str(fields["id"]))
        return Request.of_json("/v1/documents", fields)

    def _delete(self) -> Request:
        wanted = {"id": self._put.pop(self._random.randrange(len(self._put)))}
        return Request("DELETE", f"/v1/documents?{urlencode(wanted)}")

    def _question(self) -> str:
        return self._random.choice(QUESTIONS).format(self._random.randrange(1, 40))

    def _draw_common(self, fields: dict[str, object]) -> None:
        self._draw(fields, "tenant", ("", "ann", "bob"))
        self._draw(fields, "deadline_s", (60, 300.5))
        self._draw(fields, "priority", ("interactive", "normal", "bulk"))

    def _draw(self, fields: dict[str, object], name: str, values: tuple[object, ...]) -> None:
        """Give a field one of its values, in a third of the cases."""
        if self._random.random() < 1 / 3:
            fields[name] = self._random.choice(values)
