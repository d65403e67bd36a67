"""Questions and health checks while thousands of sockets ask for nothing.

`heddle serve` runs on a few documents and quotes from them. A client asks for `/health` and puts
questions one after the other; in every second block half of `SOCKETS` connections have sent half a
head before, and the other half a head and half of its body. The server has accepted them when the
first question comes. The ratios are of 95th percentiles with them over those without, medians of
the pairs of blocks. `refused` counts answers other than 200, and `still_open_after_30_s` the
connections that the server has not closed 30 s after their begin.
"""

import asyncio
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from benchmarks.support.serve_process import serve_process

SOCKETS = 2_000
OPEN_S = 30.0
HALF_HEAD = b"POST /v1/ask HTTP/1.1\r\nHost: 127.0"
HALF_BODY = (
    b"POST /v1/ask HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: 1000\r\n\r\n{"
)
QUESTION = {"question": "Who keeps the lighthouse on Rock 3?"}
KEEPERS = ("Clara", "Ivo", "Marta", "Olaf", "Pia")


@dataclass
class Block:
    """One block: percentiles in milliseconds, and what was refused."""

    sockets: int
    health_ms: float
    ask_ms: float
    refused: int
    still_open: int


def run(quick: bool, seed: int) -> dict[str, object]:
    """Measure blocks with and without idle sockets, in turns."""
    sockets, pairs, asks, open_s = (200, 1, 5, 18.0) if quick else (SOCKETS, 5, 100, OPEN_S)
    _allow_sockets(sockets)
    with tempfile.TemporaryDirectory() as folder, _served(Path(folder)) as url:
        asyncio.run(_block(url, 0, asks, 0.0))  # warms up
        blocks = []
        for number in range(2 * pairs):
            idle = sockets if number % 2 else 0
            blocks.append(asyncio.run(_block(url, idle, asks, open_s)))
            print("  ".join(f"{name} {value:g}" for name, value in asdict(blocks[-1]).items()))
    settings = {"pairs": pairs, "asks_a_block": asks, "open_s": open_s}
    quiet, loud = blocks[::2], blocks[1::2]
    headline = {
        "sockets": sockets,
        "health_p95_ratio": _ratio([b.health_ms for b in loud], [b.health_ms for b in quiet]),
        "ask_p95_ratio": _ratio([b.ask_ms for b in loud], [b.ask_ms for b in quiet]),
        "refused": sum(block.refused for block in blocks),
        "still_open_after_30_s": max(block.still_open for block in blocks),
    }
    return {"settings": settings, "rows": [asdict(b) for b in blocks], "headline": headline}


def _ratio(loud: list[float], quiet: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(loud, quiet, strict=True))


async def _block(url: str, sockets: int, asks: int, open_s: float) -> Block:
    address = httpx.URL(url)
    opened_s = time.perf_counter()
    idle = [await _opened(str(address.host), address.port or 80, n % 2) for n in range(sockets)]
    health: list[float] = []
    ask: list[float] = []
    refused = 0
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        await client.get("/health")  # answered once the server has accepted the connections
        for _ in range(asks):
            for times, request in (
                (health, client.build_request("GET", "/health")),
                (ask, client.build_request("POST", "/v1/ask", json=QUESTION)),
            ):
                started_s = time.perf_counter()
                answer = await client.send(request)
                times.append((time.perf_counter() - started_s) * 1e3)
                refused += answer.status_code != 200
    still_open = 0
    if sockets:
        await asyncio.sleep(max(0.0, open_s - (time.perf_counter() - opened_s)))
        ends = [asyncio.create_task(_ends(reader)) for reader, _ in idle]
        still_open = sum(not ended for ended in await asyncio.gather(*ends))
        for _, writer in idle:
            writer.close()
    return Block(sockets, _p95(health), _p95(ask), refused, still_open)


async def _opened(
    host: str, port: int, has_head: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(HALF_BODY if has_head else HALF_HEAD)
    return reader, writer


async def _ends(reader: asyncio.StreamReader) -> bool:
    """Whether the server has closed a connection by now."""
    try:
        async with asyncio.timeout(0.1):
            await reader.read()
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def _p95(times: list[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


def _allow_sockets(sockets: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2 * sockets:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2 * sockets), hard))


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """Serve a corpus of some documents until the block ends; gives the server's URL."""
    documents = folder / "documents"
    documents.mkdir()
    for number, keeper in enumerate(KEEPERS):
        text = f"# Rock {number}\n\nThe keeper of the lighthouse on Rock {number} is {keeper}.\n"
        (documents / f"rock-{number}.md").write_text(text)
    corpus = folder / "corpus"
    heddle = (sys.executable, "-m", "heddle.cli.main")
    subprocess.run([*heddle, "index", documents, "--into", corpus], check=True)
    with serve_process(corpus) as process:
        yield process.url
