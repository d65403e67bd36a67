"""Embeddings of other servers: POST /embeddings, as OpenAI documents it."""

import asyncio
import base64
import binascii
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import InputError
from heddle.core.payloads import EmbedPayload
from heddle.core.ports import Clock
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Result, Vectors
from heddle.core.tasks import Priority, Task
from heddle.engines.remote.attempts import TRIES_MAX, Attempts
from heddle.engines.remote.call_port import CallPort, Work
from heddle.engines.remote.endpoint import Endpoint, Endpoints
from heddle.engines.remote.http.client import HttpClient
from heddle.engines.remote.json_call import json_call, tokens_of
from heddle.engines.remote.probe import PROBE_S_MAX, chosen_model, offered_models
from heddle.engines.remote.problem import RemoteProblem, Trouble
from heddle.engines.remote.refusal import no_json
from heddle.engines.remote.step_size import StepSize

CALL: Final = "/embeddings"
ROWS: Final = 512  # texts in flight
ROWS_EACH: Final = 32  # texts of one request: what the smallest servers take at once
REQUESTS_MAX: Final = 8  # at once
CALL_S_MAX: Final = 120.0
BULK_TRIES_MAX: Final = 12  # indexing outlasts a limit of requests a minute
DIMS_MAX: Final = 1 << 16
MAX_TOKENS_UNKNOWN: Final = 8192
CHARS_A_TOKEN: Final = 4
PROBE_TEXT: Final = "The keeper of the lighthouse writes down the weather every evening."
STANDING_OUT_MIN: Final = 4  # components that a fingerprint is made of
STANDING_OUT_MAX: Final = 16

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EmbedderAbilities:
    """What a server's embedder is.

    Args:
        model: its name there.
        dims: length of its vectors.
        fingerprint: stands for the model, wherever it runs: its name, its dims, and a digest of
            the vector that it gives to a fixed text.
        max_tokens: of a text; a guess where the server doesn't say.
        has_base64: whether it sends vectors as base64, which is far less to read.
    """

    model: str
    dims: int
    fingerprint: str
    max_tokens: int = MAX_TOKENS_UNKNOWN
    has_base64: bool = True

    @property
    def name(self) -> str:
        """By which a corpus records it."""
        return self.fingerprint

    @property
    def is_packaged(self) -> bool:
        """Never: its speed is another server's."""
        return False

    def check_dims(self, dims: int) -> None:
        """Refuse a length that its vectors don't have.

        Raises:
            InputError: it is another one.
        """
        if dims != self.dims:
            raise InputError(
                f"dimensions={dims}: vectors of {self.model} have {self.dims}; leave dimensions out"
            )


def remote_embedder(
    name: str,
    endpoints: Endpoints[EmbedderAbilities],
    clock: Clock,
    loop: asyncio.AbstractEventLoop,
) -> CallPort:
    """Return the engine that embeds on other servers, as EnginePort."""
    limit = asyncio.Semaphore(REQUESTS_MAX)

    async def answer(task: Task, deadline_s: float) -> tuple[Result, int]:
        payload = task.payload
        if not isinstance(payload, EmbedPayload):
            raise RemoteProblem(Trouble.REFUSED, f"{name} embeds texts and nothing else")
        tries_max = BULK_TRIES_MAX if task.identity.priority is Priority.BULK else TRIES_MAX

        async def part(texts: Sequence[str]) -> tuple[Array, int]:
            attempts = Attempts(endpoints, clock, deadline_s, tries_max)
            async with limit:
                _, found = await attempts.run(lambda server: embed(server, texts))
            return found

        texts = payload.texts
        starts = [*range(0, len(texts), ROWS_EACH), len(texts)]
        parts = await _all(*(part(texts[a:b]) for a, b in pairwise(starts)))
        values = np.concatenate([vectors for vectors, _ in parts])
        read = sum(tokens for _, tokens in parts)
        return Vectors(values, read), read or sum(map(len, texts)) // CHARS_A_TOKEN

    work = Work(answer, endpoints.notes, endpoints.close)
    return CallPort(name, PrimitiveKind.EMBEDDING, ROWS, work, clock, loop, StepSize())


async def embed(server: Endpoint[EmbedderAbilities], texts: Sequence[str]) -> tuple[Array, int]:
    """Return the normalised vectors of texts, and the tokens that the server counted.

    Shapes: returns [len(texts), dims] float32.

    Raises:
        RemoteProblem: the server gives none, or others than its model has.
    """
    abilities = server.abilities
    body: dict[str, object] = {"model": abilities.model, "input": list(texts)}
    if abilities.has_base64:
        body["encoding_format"] = "base64"
    answer = await json_call(server, CALL, body, CALL_S_MAX)
    vectors = _vectors(answer, len(texts))
    if vectors.shape[1] != abilities.dims:
        raise no_json(f"vectors of {vectors.shape[1]} values where {abilities.dims} are expected")
    return vectors, tokens_of(answer)


async def probe_embedder(client: HttpClient, wanted: str) -> EmbedderAbilities:
    """Return what the embedder of a name is, by embedding one fixed text.

    Raises:
        RemoteProblem: there is none; the words lack the server's address.
    """
    model = chosen_model(wanted, await offered_models(client))
    body: dict[str, object] = {"model": model.name, "input": [PROBE_TEXT]}
    server = Endpoint(client, EmbedderAbilities(model.name, 0, ""))
    has_base64 = True
    try:
        answer = await json_call(server, CALL, {**body, "encoding_format": "base64"}, PROBE_S_MAX)
    except RemoteProblem as problem:
        if problem.trouble is not Trouble.REFUSED:
            raise
        has_base64 = False
        answer = await json_call(server, CALL, body, PROBE_S_MAX)
    (vector,) = _vectors(answer, 1)
    return EmbedderAbilities(
        model.name,
        len(vector),
        f"remote-{model.name}-{len(vector)}-{digest(vector)}",
        model.context_tokens_max or MAX_TOKENS_UNKNOWN,
        has_base64,
    )


def digest(vector: Array) -> str:
    """Return eight digits that stand for a vector, and for others that differ by rounding alone.

    They are made of the places and signs of its largest values. How many count, from 4 to 16,
    is where the next smaller value is farthest below: there, rounding changes no place.

    Shapes: vector [d] float32, normalised.
    """
    order = np.argsort(-np.abs(vector), kind="stable")[: STANDING_OUT_MAX + 1]
    sizes = np.abs(vector)[order]
    first = min(STANDING_OUT_MIN, len(order) - 1)
    gaps = sizes[first - 1 : -1] - sizes[first:] if len(order) > 1 else np.zeros(1)
    count = first + int(np.argmax(gaps))
    places = sorted(f"{place}{'+' if vector[place] > 0 else '-'}" for place in order[:count])
    return hashlib.sha256(" ".join(places).encode()).hexdigest()[:8]


async def _all(*parts: Any) -> list[tuple[Array, int]]:  # noqa: ANN401 - coroutines
    """Run the parts side by side; the first that fails ends the others."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


def _vectors(answer: Any, count: int) -> Array:  # noqa: ANN401 - any JSON value
    """Return the vectors of an answer in the order of the texts, normalised."""
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list) or len(data) != count:
        raise no_json(f"no list of {count} vectors")
    rows: dict[int, Array] = {}
    for place, entry in enumerate(data):
        if not isinstance(entry, dict):
            raise no_json("a vector that can't be read")
        index = entry.get("index", place)
        rows[index if isinstance(index, int) else place] = _vector(entry.get("embedding"))
    if sorted(rows) != list(range(count)) or len({len(row) for row in rows.values()}) != 1:
        raise no_json("vectors of different lengths, or not one for each text")
    values = np.stack([rows[index] for index in range(count)])
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not (lengths > 0).all():
        raise no_json("a vector without a direction")
    return np.ascontiguousarray(values / lengths, dtype=np.float32)


def _vector(value: object) -> Array:
    try:
        if isinstance(value, str):
            found = np.frombuffer(base64.b64decode(value, validate=True), "<f4")
        else:
            found = np.asarray(value, dtype=np.float32)
    except (binascii.Error, ValueError, TypeError, OverflowError):
        raise no_json("a vector that can't be read") from None
    if found.ndim != 1 or not 0 < len(found) <= DIMS_MAX:
        raise no_json("a vector that can't be read")
    return found.astype(np.float32)
