"""The documented calls of clients that people have, unchanged, to Heddle's API.

Each client is what its package index offers, pinned in constraints.txt and installed by
`make setup-all`; each call is written as the client's own pages write it, and raises where the
reply isn't what they document (`benchmarks/client_calls`). Two servers answer: one with a tiny
random model, which shows counts, streams, stop strings and errors, and one that quotes a small
corpus, which shows that an answer and its sources arrive.

`clients` is how many are installed, `calls` how many calls were made, and `failed` how many of
them failed; a client that isn't installed has a row that says so. Bars: 7, 80 and 0.
"""

import importlib.util
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from benchmarks.client_calls.all_clients import ALL_CLIENTS
from benchmarks.client_calls.call import Client, Make, Servers
from benchmarks.client_calls.serving import INLINE, KV_BYTES, served
from benchmarks.support.tiny_server import index_documents, write_documents, write_model
from heddle.app.server import Server

PROBLEM_CHARS = 300


def run(quick: bool, seed: int) -> dict[str, object]:
    """Make every call; returns a row for each client, and the headline."""
    del quick, seed  # each call is short, and nothing is drawn
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = write_model(folder / "model")
        corpus = index_documents([write_documents(folder / "documents")], folder / "corpus")
        with (
            Server(model, corpus, kv_cache_bytes=KV_BYTES, **INLINE) as writing,
            served(writing, corpus) as servers,
        ):
            rows = [_tried(client, servers) for client in ALL_CLIENTS]
    for row in rows:
        print(f"{row['client']} {row['version']}: {row['calls']} calls, {row['failed']} failed")
        for call, problem in row["problems"].items():
            print(f"  {call}: {problem}")
    present = [row for row in rows if row["version"]]
    headline = {
        "clients": len(present),
        "calls": sum(row["calls"] for row in present),
        "failed": sum(row["failed"] for row in present),
    }
    return {"settings": {}, "rows": rows, "headline": headline}


def _tried(client: Client, servers: Servers) -> dict:
    """Return the row of a client."""
    if importlib.util.find_spec(client.module.partition(".")[0]) is None:
        return _row(client, "", {}, 0.0)
    started_s = time.perf_counter()
    problems = {name: _problem(make, servers) for name, make in client.calls.items()}
    return _row(client, version(client.name), problems, time.perf_counter() - started_s)


def _row(client: Client, installed: str, problems: dict[str, str], seconds: float) -> dict:
    wrong = {name: problem for name, problem in problems.items() if problem}
    return {
        "client": client.name,
        "version": installed,
        "calls": len(problems),
        "failed": len(wrong),
        "seconds": round(seconds, 3),
        "names": list(problems),
        "problems": wrong,
    }


def _problem(make: Make, servers: Servers) -> str:
    """Return why a call failed; "" = it did not."""
    try:
        make(servers)
    except Exception as error:  # clients raise errors of their own
        return f"{type(error).__name__}: {error}"[:PROBLEM_CHARS]
    return ""
