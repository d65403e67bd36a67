"""Heddle between client and server: over HTTP, or as a library with the clients in its process.

A workflow of one generation is run by the whole runtime: admission, scheduling, receipt.
"""

import asyncio
import json
import sys
import time

from heddle.app.server import Server
from heddle.runtime.events import TokenDelta
from heddle.workflow.ragraph import END, START, RAGraph
from heddle.workflow.workflow import Workflow


def workflow(tokens: int) -> Workflow:
    """Return a workflow that only writes."""
    graph = RAGraph("write")
    graph.add_generation("answer", "Answer.\n{query}", max_tokens=tokens)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph.compile()


def serve(server: Server, tokens: int) -> None:
    """Serve over HTTP until the process is ended."""
    from benchmarks.contenders.uvicorn_process import serve_app
    from heddle.server.bounded_connection import BoundedConnection
    from heddle.server.http import create_app

    serve_app(create_app(server, {"write": workflow(tokens)}), http=BoundedConnection)


async def _ask(server: Server, flow: Workflow, question: str) -> float:
    """Return the time to the first token [s]."""
    started_s, first_s = time.perf_counter(), 0.0
    async for event in server.app(flow).astream(question):
        if not first_s and isinstance(event, TokenDelta):
            first_s = time.perf_counter() - started_s
    return first_s


def library(server: Server, tokens: int, question: str) -> None:
    """Run as many requests as each line of standard input says; print their times."""
    flow = workflow(tokens)

    async def worker(count: int, start_s: float) -> list[float]:
        await asyncio.sleep(start_s)
        return [await _ask(server, flow, question) for _ in range(count)]

    async def all_workers(streams: int, each: int, spread_s: float) -> list[float]:
        starts = (spread_s * number / streams for number in range(streams))
        found = await asyncio.gather(*(worker(each, start_s) for start_s in starts))
        return [seconds for times in found for seconds in times]

    print(0, flush=True)
    for line in sys.stdin:
        streams, each, spread_s = line.split()
        before_s = time.process_time()
        firsts = asyncio.run(all_workers(int(streams), int(each), float(spread_s)))
        print(json.dumps({"cpu_s": time.process_time() - before_s, "firsts": firsts}), flush=True)


def main() -> None:
    """Run in the mode that the command line names."""
    mode, port, streams, tokens = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    url = f"http://127.0.0.1:{port}/v1"
    with Server(url, max_num_seqs=streams, reranker=None) as server:
        if mode == "http":
            serve(server, tokens)
        else:
            library(server, tokens, sys.argv[5])


if __name__ == "__main__":
    main()
