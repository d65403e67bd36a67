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
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.support.stream_load import Asking, first_tokens_s

STREAMS = 32
TOKENS = 32
FIRST_S = 0.02
GAP_S = 0.01
ANSWER_S = FIRST_S + TOKENS * GAP_S
QUESTION = "Who keeps the lighthouse on Rock 1? " + "The keeper writes the weather down. " * 40
ROOT = Path(__file__).parents[1]
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


@dataclass
class Process:
    """A contender, or the fake endpoint."""

    process: "subprocess.Popen[str]"
    port: int

    def ask(self, line: str) -> str:
        """Send a line and return the line that answers it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(line, file=self.process.stdin, flush=True)
        return self.process.stdout.readline()

    def over_http(self, asking: Asking, each: int) -> Turn:
        """Run streams through it and return what they took."""
        before_s = float(self.ask("cpu"))
        firsts = first_tokens_s(asking, STREAMS, each, ANSWER_S)
        cpu_s = float(self.ask("cpu")) - before_s
        return _turn(firsts, cpu_s)

    def as_library(self, each: int) -> Turn:
        """Have it run streams by itself and return what they took."""
        found = json.loads(self.ask(f"{STREAMS} {each} {ANSWER_S}"))
        return _turn(found["firsts"], found["cpu_s"])


def run(quick: bool, seed: int) -> dict[str, object]:
    """Measure all contenders in turns."""
    turns, each = (2, 2) if quick else (7, 10)
    rows: list[dict[str, Turn]] = []
    with ExitStack() as ending:
        start = ending.enter_context
        fake = start(_process("remote_endpoint", str(TOKENS), str(FIRST_S), str(GAP_S)))
        port = str(fake.port)
        proxy = start(_process("remote_proxy", port))
        library = start(
            _process("remote_heddle", "library", port, str(STREAMS), str(TOKENS), QUESTION)
        )
        served = start(_process("remote_heddle", "http", port, str(STREAMS), str(TOKENS)))
        through = Asking(proxy.port, "/v1/chat/completions", PROXY_BODY, b'"content"')
        asked = Asking(served.port, "/v1/ask", HEDDLE_BODY, b"event: token")
        for number in range(turns + 1):
            row = {
                "proxy": proxy.over_http(through, each),
                "heddle": served.over_http(asked, each),
                "library": library.as_library(each),
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


@contextmanager
def _process(module: str, *arguments: str) -> Iterator[Process]:
    command = [sys.executable, "-m", f"benchmarks.contenders.{module}", *arguments]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)
    assert process.stdout is not None
    try:
        yield Process(process, int(process.stdout.readline()))
    finally:
        process.terminate()
        process.communicate()
