"""The verbs, on a server that does only what a test says."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from heddle.app.application import App
from heddle.core.errors import Busy, Cancelled, InputError
from heddle.core.tasks import Optimizations
from heddle.runtime.events import Answer, NodeStarted, RequestFailed
from heddle.runtime.handle import Handle
from heddle.runtime.receipt import ReceiptDraft
from heddle.workflow.presets import preset

RECEIPT = ReceiptDraft().close(Optimizations.EXACT, 0.0, "exact")
WORKFLOW = preset("oneshot").compile()


@dataclass
class FakeServer:
    """Answers a question with itself; "wait" never, "bad" with an error; holds `room` at once.

    A full server refuses, and then answers its oldest request; where that isn't ours, one of
    `others` leaves; but for one that `is_stuck`. It answers all it holds when it is asked `last`.
    """

    room: int = 100
    is_stuck: bool = False
    others: int = 0
    last: str = ""
    open: list[Handle] = field(default_factory=list)
    handles: list[Handle] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    asked: list[tuple[str, dict]] = field(default_factory=list)

    def submit(self, workflow: object, question: str, **how: object) -> Handle:
        assert workflow is WORKFLOW
        if question == "refused":
            raise InputError("refused")
        self.open = [handle for handle in self.open if not handle.is_done]
        if len(self.open) + self.others >= self.room:
            if not self.is_stuck:
                self._make_room()
            raise Busy("full", wait_s=0.0)
        self.asked.append((question, how))
        handle = Handle(lambda: self._cancel(question, handle))
        handle.question = question
        handle.push(NodeStarted("retrieve", 0))
        self.handles.append(handle)
        if self.room == 100:
            self._answer(handle)
        else:
            self.open.append(handle)
        if question == self.last:
            for waiting in self.open:
                self._answer(waiting)
        return handle

    def _make_room(self) -> None:
        if self.open:
            self._answer(self.open[0])
        elif self.others > 0:
            self.others -= 1

    def _answer(self, handle: Handle) -> None:
        if handle.question == "bad":
            handle.push(RequestFailed(InputError("bad")))
        elif handle.question != "wait":
            handle.push(Answer(handle.question, (), {}, RECEIPT))

    def _cancel(self, question: str, handle: Handle) -> None:
        self.cancelled.append(question)
        if not handle.is_done:
            handle.push(RequestFailed(Cancelled("cancelled")))


def test_every_verb_hands_on_how():
    server = FakeServer()
    app = App(server, WORKFLOW)
    app.invoke("a", tenant="t")
    list(app.stream("b", priority="bulk"))
    app.batch(["c"], deadline_s=3)
    assert server.asked == [
        ("a", {"tenant": "t"}),
        ("b", {"priority": "bulk"}),
        ("c", {"deadline_s": 3}),
    ]


def many(server: FakeServer, is_async: bool, questions: Sequence[str], **how: object) -> list:
    """Run a batch, in one way or the other; when it is over, nothing of it runs any more."""
    app = App(server, WORKFLOW)
    try:
        if is_async:
            return asyncio.run(app.abatch(questions, **how))
        return app.batch(questions, **how)
    finally:
        assert all(handle.is_done for handle in server.handles)


@pytest.mark.parametrize("is_async", [False, True])
class TestMany:
    def test_answers_come_in_order(self, is_async: bool):
        answers = many(FakeServer(), is_async, ["a", "b", "c"])
        assert [answer.text for answer in answers] == ["a", "b", "c"]
        assert many(FakeServer(), is_async, []) == []

    def test_the_first_error_is_raised_and_the_others_are_cancelled(self, is_async: bool):
        server = FakeServer()
        with pytest.raises(InputError, match="bad"):
            many(server, is_async, ["a", "bad", "wait"])
        assert set(server.cancelled) <= {"wait"}
        with pytest.raises(InputError, match="refused"):
            many(server, is_async, ["a", "refused", "b"])

    def test_errors_take_the_place_of_answers_where_asked_for(self, is_async: bool):
        found = many(FakeServer(), is_async, ["a", "bad", "refused", "b"], return_exceptions=True)
        assert [type(one) for one in found] == [Answer, InputError, InputError, Answer]
        assert [str(error) for error in found[1:3]] == ["bad", "refused"]

    def test_more_than_the_server_holds_wait_and_are_let_in_in_order(self, is_async: bool):
        server = FakeServer(room=2, last="g")
        answers = many(server, is_async, list("abcdefg"))
        assert [answer.text for answer in answers] == list("abcdefg")
        assert [question for question, _ in server.asked] == list("abcdefg")

    def test_room_that_others_take_is_waited_for(self, is_async: bool):
        server = FakeServer(room=2, others=4, last="b")
        assert [answer.text for answer in many(server, is_async, ["a", "b"])] == ["a", "b"]

    def test_the_wait_for_room_is_bounded_by_the_deadline(self, is_async: bool):
        with pytest.raises(Busy):
            many(FakeServer(room=0), is_async, ["a"], deadline_s=0.02)
        found = many(FakeServer(room=0), is_async, ["a"], deadline_s=0.02, return_exceptions=True)
        assert [type(one) for one in found] == [Busy]


async def a_few_turns() -> None:
    """Let the other tasks of the loop go as far as they can."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_an_async_batch_fails_as_soon_as_one_does():
    server = FakeServer(room=50)

    async def run() -> None:
        batch = asyncio.ensure_future(App(server, WORKFLOW).abatch(["wait", "a", "b"]))
        await a_few_turns()
        server.handles[2].push(RequestFailed(InputError("no")))
        with pytest.raises(InputError, match="no"):
            await batch
        assert all(handle.is_done for handle in server.handles)

    asyncio.run(run())
    assert set(server.cancelled) == {"wait", "a"}


def test_an_async_batch_that_is_cancelled_cancels_its_requests():
    server = FakeServer(room=2, is_stuck=True)

    async def run() -> None:
        batch = asyncio.ensure_future(App(server, WORKFLOW).abatch(["wait", "a", "b"]))
        await a_few_turns()
        batch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await batch

    asyncio.run(run())
    assert server.cancelled == ["wait", "a"]
    assert [question for question, _ in server.asked] == ["wait", "a"]


def test_a_stream_that_is_left_is_cancelled():
    server = FakeServer()
    stream = App(server, WORKFLOW).stream("wait")
    assert isinstance(next(stream), NodeStarted)
    stream.close()
    assert server.cancelled == ["wait"]
    list(App(server, WORKFLOW).stream("a"))
    assert server.cancelled == ["wait"]


def test_an_async_stream_that_is_left_is_cancelled():
    server = FakeServer()

    async def run() -> None:
        stream = App(server, WORKFLOW).astream("wait")
        assert isinstance(await anext(stream), NodeStarted)
        await stream.aclose()

    asyncio.run(run())
    assert set(server.cancelled) == {"wait"}


def test_ctrl_c_while_waiting_cancels(monkeypatch: pytest.MonkeyPatch):
    def interrupted(handle: Handle, timeout_s: float | None = None) -> Answer:
        raise KeyboardInterrupt

    monkeypatch.setattr(Handle, "result", interrupted)
    server = FakeServer()
    with pytest.raises(KeyboardInterrupt):
        App(server, WORKFLOW).invoke("wait")
    assert server.cancelled == ["wait"]
