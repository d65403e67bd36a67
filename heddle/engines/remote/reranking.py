"""Ranking by other servers: POST /rerank, in the shapes of Cohere, Jina and vLLM, and of TEI."""

import asyncio
import math
from dataclasses import dataclass
from typing import Any, Final

from heddle.core.payloads import ReadingText, RerankPayload
from heddle.core.ports import Clock
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Reranked, Result
from heddle.core.tasks import Task
from heddle.engines.remote.attempts import Attempts
from heddle.engines.remote.call_port import CallPort, Work
from heddle.engines.remote.endpoint import Endpoint, Endpoints
from heddle.engines.remote.http.client import HttpClient
from heddle.engines.remote.json_call import json_call, tokens_of
from heddle.engines.remote.probe import PROBE_S_MAX, chosen_model, offered_models
from heddle.engines.remote.problem import RemoteProblem, Trouble
from heddle.engines.remote.refusal import no_json

ROWS: Final = 256  # passages in flight
CALL_S_MAX: Final = 120.0
TEI_TEXTS_MAX: Final = 32  # of a request, where the server isn't started with another limit
# Beside the API's path, or below it; two slashes stand for the server's own root.
CALLS: Final = ("/rerank", "//rerank")
PROBE: Final = RerankPayload("Who?", (ReadingText("", "A keeper."),))


@dataclass(frozen=True, slots=True)
class RerankerAbilities:
    """How a server's reranker is asked.

    Args:
        model: its name there; empty = the server has only one, and doesn't name it.
        call: the call's path.
        is_tei: whether it wants `texts`, as text-embeddings-inference does, and not `documents`.
    """

    model: str
    call: str
    is_tei: bool = False


def remote_reranker(
    name: str,
    endpoints: Endpoints[RerankerAbilities],
    clock: Clock,
    loop: asyncio.AbstractEventLoop,
) -> CallPort:
    """Return the engine that ranks passages on other servers, as EnginePort."""

    async def answer(task: Task, deadline_s: float) -> tuple[Result, int]:
        payload = task.payload
        if not isinstance(payload, RerankPayload):
            raise RemoteProblem(Trouble.REFUSED, f"{name} ranks passages and nothing else")
        attempts = Attempts(endpoints, clock, deadline_s)
        _, ranked = await attempts.run(lambda server: rerank(server, payload))
        return ranked, ranked.tokens

    work = Work(answer, endpoints.notes, endpoints.close)
    return CallPort(name, PrimitiveKind.RERANKING, ROWS, work, clock, loop)


async def rerank(
    server: Endpoint[RerankerAbilities], payload: RerankPayload, seconds: float = CALL_S_MAX
) -> Reranked:
    """Return the score of each passage.

    Raises:
        RemoteProblem: the server gives none, or not one for each passage.
    """
    texts = [_text(passage) for passage in payload.passages]
    if not server.abilities.is_tei:
        return await _rerank(server, payload.question, texts, seconds)
    scores: list[float] = []
    for start in range(0, len(texts), TEI_TEXTS_MAX):
        part = texts[start : start + TEI_TEXTS_MAX]
        scores += (await _rerank(server, payload.question, part, seconds)).scores
    return Reranked(tuple(scores), 0)


async def _rerank(
    server: Endpoint[RerankerAbilities], question: str, texts: list[str], seconds: float
) -> Reranked:
    """Return the score of each text, by one request."""
    abilities = server.abilities
    body: dict[str, object] = {"query": question}
    if abilities.is_tei:
        body |= {"texts": texts, "truncate": True}
    else:
        body |= {"model": abilities.model, "documents": texts, "top_n": len(texts)}
    answer = await json_call(server, abilities.call, body, seconds)
    return Reranked(_scores(answer, len(texts)), tokens_of(answer))


async def probe_reranker(client: HttpClient, wanted: str) -> RerankerAbilities:
    """Return how a server's reranker is asked, by ranking one fixed passage.

    Raises:
        RemoteProblem: it has none; the words lack the server's address.
    """
    offered = await offered_models(client)
    model = "" if offered is None and not wanted else chosen_model(wanted, offered).name
    for call in CALLS:
        for is_tei in (False, True):
            abilities = RerankerAbilities(model, call, is_tei)
            try:
                await rerank(Endpoint(client, abilities), PROBE, PROBE_S_MAX)
            except RemoteProblem as problem:
                if problem.trouble not in (Trouble.NO_API, Trouble.REFUSED, Trouble.GARBAGE):
                    raise
            else:
                return abilities
    words = "has no /rerank that ranks passages; a chat model can't take a reranker's place"
    raise RemoteProblem(Trouble.NO_API, words)


def _text(passage: ReadingText) -> str:
    return f"{passage.title}\n{passage.text}" if passage.title else passage.text


def _scores(answer: Any, count: int) -> tuple[float, ...]:  # noqa: ANN401 - any JSON value
    """Return the scores in the order of the passages."""
    results = answer.get("results") if isinstance(answer, dict) else answer
    if not isinstance(results, list) or len(results) != count:
        raise no_json(f"no list of {count} scores")
    scores: dict[int, float] = {}
    for entry in results:
        index = entry.get("index") if isinstance(entry, dict) else None
        score = entry.get("relevance_score", entry.get("score")) if index is not None else None
        if not isinstance(index, int) or not isinstance(score, int | float):
            raise no_json("a score that can't be read")
        if not math.isfinite(score):
            raise no_json("a score that is no number")
        scores[index] = float(score)
    if sorted(scores) != list(range(count)):
        raise no_json("not one score for each passage")
    return tuple(scores[index] for index in range(count))
