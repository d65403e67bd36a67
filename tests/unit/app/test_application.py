"""The verbs, on a server that does only what a test says."""

import asyncio
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
    """Answers a question with itself; "wait" never, "bad" with an error; holds `room` at once."""

    room: int = 100
    open: list[Handle] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    asked: list[tuple[str, dict]] = field(default_factory=list)

    def submit(self, workflow: object, question: str, **how: object) -> Handle:
        assert workflow is WORKFLOW
        self.open = [handle for handle in self.open if not handle.is_done]
        if len(self.open) >= self.room:
            raise Busy("full", wait_s=1.0)
        self.asked.append((question, how))
        handle = Handle(lambda: self._cancel(question, handle))
        handle.question = question
        handle.push(NodeStarted("retrieve", 0))
        if self.room == 100:
            self._answer(handle)
        else:
            self.open.append(handle)
        return handle

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


def test_a_batch_keeps_the_order_and_raises_the_first_error():
    server = FakeServer()
    app = App(server, WORKFLOW)
    assert [answer.text for answer in app.batch(["a", "b", "c"])] == ["a", "b", "c"]
    with pytest.raises(InputError, match="bad"):
        app.batch(["a", "bad", "wait"])
    assert server.cancelled == ["wait"]


def test_a_batch_larger_than_the_server_waits_for_room(monkeypatch: pytest.MonkeyPatch):
    server = FakeServer(room=2)
    plain_result = Handle.result

    def result(handle: Handle, timeout_s: float | None = None) -> Answer:
        if not handle.is_done:
            server._answer(handle)
        return plain_result(handle, timeout_s)

    monkeypatch.setattr(Handle, "result", result)
    answers = App(server, WORKFLOW).batch(list("abcde"))
    assert [answer.text for answer in answers] == list("abcde")


def test_busy_with_nothing_of_ours_in_flight_is_told():
    with pytest.raises(Busy):
        App(FakeServer(room=0), WORKFLOW).batch(["a"])


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


def test_many_from_async_code():
    answers = asyncio.run(App(FakeServer(), WORKFLOW).abatch(["a", "b"]))
    assert [answer.text for answer in answers] == ["a", "b"]
