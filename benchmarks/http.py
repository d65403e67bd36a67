"""Heddle's HTTP front beside a bare FastAPI server that sends the same bytes at the same pace.

64 clients stream answers of 32 tokens over `/v1/chat/completions`. A fake LLM writes the first
token 20 ms after it got the request, and one more each 20 ms. The clients start spread over the
length of an answer and ask again as soon as one has ended. `heddle` is the application of `heddle
serve` with all its checks, and no runtime behind it (`bench remote` has that too): the LLM's thread
stands for the runtime's. `bare` is one FastAPI route with a StreamingResponse; it sends the pieces
of one of Heddle's replies, which are recorded first. Both run in turns, each in a process of its
own. Every stream has to have the whole text, or the run fails. A front that is late joins tokens
into one piece and so sends fewer bytes: `share_same_bytes` in the rows counts the streams of
exactly the recorded length.

`x_bare_p50` and `x_bare_p99` are those of the time to the first token over the bare server's,
`added_cpu_ms_a_request` is the CPU of a request beyond the bare server's; all are medians over the
turns. Bars: 1.5, 1.5 and 2 ms. The rows have the time of whole streams too.
"""

import json
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.contenders.pace import Pace
from benchmarks.support.contender_process import ContenderProcess, contender_process
from benchmarks.support.stream_load import Asking, Heard, heard_streams
from heddle.core.errors import InternalError

STREAMS = 64
PACE = Pace(tokens=32, first_s=0.02, gap_s=0.02)
ANSWER_S = PACE.length_s
RECORDINGS_MAX = 10
DATA = b"data: "
DONE = b"[DONE]"
BODY: dict[str, object] = {
    "model": "fake",
    "stream": True,
    "messages": [{"role": "user", "content": "Who keeps the lighthouse on Rock 1?"}],
}


@dataclass(frozen=True)
class Turn:
    """One turn of one contender; times of streams [ms], the CPU of a request [ms]."""

    first_p50_ms: float
    first_p99_ms: float
    whole_p50_ms: float
    whole_p99_ms: float
    cpu_ms: float
    bytes_a_request: float
    share_same_bytes: float

    @classmethod
    def of(cls, heard: Sequence[Heard], cpu_s: float, recorded_bytes: int) -> "Turn":
        """Return what streams took.

        Raises:
            InternalError: a stream does not have the whole text.
        """
        for one in heard:
            check_text(one)
        sizes = [sum(map(len, one.pieces)) for one in heard]
        first = np.percentile([one.first_s * 1e3 for one in heard], (50, 99))
        whole = np.percentile([one.whole_s * 1e3 for one in heard], (50, 99))
        return cls(
            *map(float, (*first, *whole)),
            cpu_ms=cpu_s * 1e3 / len(heard),
            bytes_a_request=statistics.mean(sizes),
            share_same_bytes=sizes.count(recorded_bytes) / len(heard),
        )


@dataclass(frozen=True)
class Contender:
    """A server under load, and how long the body of its replies has to be."""

    process: ContenderProcess
    recorded_bytes: int

    def turn(self, each: int) -> Turn:
        """Run each client's `each` streams."""
        before_s = self.process.cpu_s()
        heard = heard_streams(asking(self.process), STREAMS, each, ANSWER_S)
        return Turn.of(heard, self.process.cpu_s() - before_s, self.recorded_bytes)


def run(quick: bool, seed: int) -> dict[str, object]:
    """Measure both in turns."""
    del seed  # nothing is drawn
    turns, each = (5, 2) if quick else (7, 20)
    rows: list[dict[str, Turn]] = []
    with _contenders() as contenders:
        for number in range(turns + 1):
            order = list(contenders) if number % 2 else list(reversed(contenders))
            row = {name: contenders[name].turn(each) for name in order}
            if number:  # the first turn warms up
                rows.append(row)
                print("  ".join(f"{name}: {_line(turn)}" for name, turn in row.items()))
    settings = {
        "streams": STREAMS,
        **asdict(PACE),
        "requests_a_turn": STREAMS * each,
        "turns": turns,
    }
    table = [{name: asdict(turn) for name, turn in row.items()} for row in rows]
    return {"settings": settings, "rows": table, "headline": headline(rows)}


def headline(rows: Sequence[Mapping[str, Turn]]) -> dict[str, float]:
    """Return the medians over the turns of Heddle beside the bare server."""
    pairs = [(row["heddle"], row["bare"]) for row in rows]
    median = statistics.median
    return {
        "x_bare_p50": median(ours.first_p50_ms / bare.first_p50_ms for ours, bare in pairs),
        "x_bare_p99": median(ours.first_p99_ms / bare.first_p99_ms for ours, bare in pairs),
        "added_cpu_ms_a_request": median(ours.cpu_ms - bare.cpu_ms for ours, bare in pairs),
        "streams": STREAMS,
    }


def asking(process: ContenderProcess) -> Asking:
    """Return what each client asks a contender."""
    return Asking(process.port, "/v1/chat/completions", BODY, b'"content":" ')


def check_text(heard: Heard) -> None:
    """Check that a stream has the whole text and its end.

    Raises:
        InternalError: it does not.
    """
    frames = [f for f in b"".join(heard.pieces).split(b"\n\n") if f.startswith(DATA)]
    if not frames or frames[-1] != DATA + DONE:
        raise InternalError(f"a stream has no end: {heard.data[-300:]!r}")
    choices = [json.loads(frame[len(DATA) :])["choices"][0] for frame in frames[:-1]]
    text = "".join(choice["delta"].get("content", "") for choice in choices)
    if text != PACE.text:
        raise InternalError(f"a stream has another text than the fake LLM wrote: {text!r}")


def recorded_pieces(process: ContenderProcess) -> list[bytes]:
    """Return the pieces of one reply: one for each token, and the last one.

    Raises:
        InternalError: the front joined tokens each time.
    """
    for _ in range(RECORDINGS_MAX):
        [heard] = heard_streams(asking(process), 1, 1, 0.0)
        check_text(heard)
        if len(heard.pieces) == PACE.tokens + 1:
            return heard.pieces
    raise InternalError(f"no reply of {RECORDINGS_MAX} came token by token: is the machine busy?")


@contextmanager
def _contenders() -> Iterator[dict[str, Contender]]:
    """Start Heddle's front, record a reply of it, and start the bare server with that."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contender_process("http_heddle", *PACE.as_arguments) as heddle,
    ):
        pieces = recorded_pieces(heddle)
        file = Path(folder) / "pieces.json"
        file.write_text(json.dumps([piece.decode() for piece in pieces]), encoding="utf-8")
        size = sum(map(len, pieces))
        with contender_process("http_bare", str(file), *PACE.as_arguments) as bare:
            yield {"heddle": Contender(heddle, size), "bare": Contender(bare, size)}


def _line(turn: Turn) -> str:
    return (
        f"first token {turn.first_p50_ms:.2f} (p99 {turn.first_p99_ms:.2f}) ms, "
        f"CPU {turn.cpu_ms:.2f} ms, same bytes {turn.share_same_bytes:.3f}"
    )
