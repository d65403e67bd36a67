"""When an answer that brings nothing more is ended."""

from collections.abc import Callable

from heddle.engines.remote.generation.answer_stream import AnswerStream
from heddle.engines.remote.generation.silence import LOOKS, SILENCE_S_MAX, SilenceWatch


class VirtualLoop:
    """Time passes by `until` alone."""

    now_s = 0.0

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay: float, callback: Callable[[], None]) -> "VirtualLoop":
        self.due_s, self.callback = self.now_s + delay, callback
        return self

    def until(self, then_s: float) -> None:
        while self.due_s <= then_s:
            self.now_s, self.due_s = self.due_s, float("inf")
            self.callback()
        self.now_s = then_s


class Limit:
    """Keeps when the wait was ended."""

    ended_s: float | None = None

    def reschedule(self, when_s: float) -> None:
        self.ended_s = when_s


def test_an_answer_ends_after_the_silence_and_not_after_twice_as_long() -> None:
    loop, limit, stream = VirtualLoop(), Limit(), AnswerStream(lambda _: None)
    SilenceWatch(stream, limit, loop)  # type: ignore[arg-type]
    loop.until(10 * SILENCE_S_MAX)
    assert limit.ended_s is None, "an answer that has not begun may take its time"
    for _ in range(3):
        stream.bytes_seen += 1
        loop.until(loop.now_s + 0.9 * SILENCE_S_MAX)
    assert limit.ended_s is None
    stream.bytes_seen += 1
    last_s = loop.now_s
    loop.until(last_s + 2 * SILENCE_S_MAX)
    assert limit.ended_s is not None
    assert SILENCE_S_MAX <= limit.ended_s - last_s <= SILENCE_S_MAX * (1 + 1.01 / LOOKS)
