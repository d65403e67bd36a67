"""Another server's model through Heddle, beside a plain asyncio pass-through to the same server.

32 clients stream answers of 32 tokens from a fake endpoint that waits 20 ms before the first token
and 10 ms between two: a fast server, so that the cost of what stands between is seen. The clients
start spread over the length of an answer and ask again as soon as one has ended. The pass-through
looks at no byte. `heddle` is Heddle's HTTP front with the same clients, `library` has them in its
own process, and its CPU includes theirs. All run in turns, each in a process of its own.

`x_proxy_first_token` is the median time to the first token over the pass-through's,
`added_cpu_ms_a_request` the CPU of a request beyond the pass-through's; both are `heddle`'s, and
medians over the turns. The same two of `library` stand behind.
"""

import json
import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.contenders.pace import Pace
from benchmarks.support.contender_process import ContenderProcess, contender_process
from benchmarks.support.stream_load import Asking, heard_streams

STREAMS = 32
TOKENS = 32
FIRST_S = 0.02
GAP_S = 0.01
PACE = Pace(TOKENS, FIRST_S, GAP_S)
ANSWER_S = FIRST_S + TOKENS * GAP_S
QUESTION = "Who keeps the lighthouse on Rock 1? " + "The keeper writes the weather down. " * 40
PROXY_BODY: dict[str, object] = {
    "model": "fake",
    "stream": True,
    "messages": [{"role": "user", "content": QUESTION}],
}
HEDDLE_BODY: dict[str, object] = {"question": QUESTION, "stream": True, "workflow": "write"}


@dataclass(frozen=True)
class Turn:
    """One turn of one contender."""

    first_ms: float
    cpu_ms: float


def over_http(contender: ContenderProcess, asking: Asking, each: int) -> Turn:
    """Run streams through a contender and return what they took."""
    before_s = contender.cpu_s()
    heard = heard_streams(asking, STREAMS, each, ANSWER_S)
    return _turn([one.first_s for one in heard], contender.cpu_s() - before_s)


def as_library(contender: ContenderProcess, each: int) -> Turn:
    """Have a contender run streams by itself and return what they took."""
    found = json.loads(contender.ask(f"{STREAMS} {each} {ANSWER_S}"))
    return _turn(found["firsts"], found["cpu_s"])


def run(quick: bool, seed: int) -> dict[str, object]:
    """Measure all contenders in turns."""
    turns, each = (2, 2) if quick else (7, 10)
    rows: list[dict[str, Turn]] = []
    with ExitStack() as ending:
        start = ending.enter_context
        fake = start(contender_process("remote_endpoint", *PACE.as_arguments))
        port = str(fake.port)
        proxy = start(contender_process("remote_proxy", port))
        library = start(
            contender_process("remote_heddle", "library", port, str(STREAMS), str(TOKENS), QUESTION)
        )
        served = start(contender_process("remote_heddle", "http", port, str(STREAMS), str(TOKENS)))
        through = Asking(proxy.port, "/v1/chat/completions", PROXY_BODY, b'"content"')
        asked = Asking(served.port, "/v1/ask", HEDDLE_BODY, b"event: token")
        for number in range(turns + 1):
            row = {
                "proxy": over_http(proxy, through, each),
                "heddle": over_http(served, asked, each),
                "library": as_library(library, each),
            }
            if number:  # the first turn warms up
                rows.append(row)
                print("  ".join(f"{k} {t.first_ms:.2f}, {t.cpu_ms:.2f}" for k, t in row.items()))
    headline = {**_headline(rows, "heddle", ""), **_headline(rows, "library", "library_")}
    settings = {
        "streams": STREAMS,
        "tokens": TOKENS,
        "first_s": FIRST_S,
        "gap_s": GAP_S,
        "requests_a_turn": STREAMS * each,
        "turns": turns,
    }
    table = [{name: vars(turn) for name, turn in row.items()} for row in rows]
    return {"settings": settings, "rows": table, "headline": headline}


def _headline(rows: Sequence[dict[str, Turn]], name: str, prefix: str) -> dict[str, float]:
    ratios = [row[name].first_ms / row["proxy"].first_ms for row in rows]
    added = [row[name].cpu_ms - row["proxy"].cpu_ms for row in rows]
    return {
        f"{prefix}x_proxy_first_token": statistics.median(ratios),
        f"{prefix}added_cpu_ms_a_request": statistics.median(added),
    }


def _turn(firsts: Sequence[float], cpu_s: float) -> Turn:
    return Turn(statistics.median(firsts) * 1e3, cpu_s / len(firsts) * 1e3)
