"""A bare FastAPI server that sends given pieces at a fixed pace: one route, and nothing else."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from benchmarks.contenders.pace import Pace
from benchmarks.contenders.uvicorn_process import serve_app


class Chat(BaseModel):
    """The fields of a request that a tutorial's server reads."""

    model: str
    messages: list[dict[str, Any]]
    stream: bool = False


async def paced(pieces: Sequence[bytes], pace: Pace) -> AsyncIterator[bytes]:
    """Yield a piece for each token at its moment, and the rest right behind the last token."""
    clock = asyncio.get_running_loop().time
    started_s = clock()
    for number, piece in enumerate(pieces[: pace.tokens]):
        await asyncio.sleep(started_s + pace.moment_s(number) - clock())
        yield piece
    for piece in pieces[pace.tokens :]:
        yield piece


def bare_app(pieces: Sequence[bytes], pace: Pace) -> FastAPI:
    """Return the application."""
    app = FastAPI()

    @app.post("/v1/chat/completions")
    async def chat(asked: Chat) -> StreamingResponse:
        assert asked.stream, "it only streams"
        return StreamingResponse(paced(pieces, pace), media_type="text/event-stream")

    return app


def main() -> None:
    """Serve the pieces of a JSON file at the pace that the command line says."""
    texts = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    pieces = [text.encode() for text in texts]
    serve_app(bare_app(pieces, Pace.of_arguments(*sys.argv[2:])))


if __name__ == "__main__":
    main()
