"""The engine that another server is: its answers, and one clear end for each failure."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest

from heddle.app.runtime_thread import RuntimeThread
from heddle.core.commands import Admit, Cancel
from heddle.core.frames import Cancelled, Done, Event, Failed, Progress
from heddle.core.payloads import DecodePayload, Pause, PrefillPayload, Sampling
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import FinishReason, Generated, Prefilled
from heddle.core.tasks import Identity, Task
from heddle.engines.remote import attempts
from heddle.engines.remote.address import Address
from heddle.engines.remote.dialect import VLLM, Abilities, Dialect
from heddle.engines.remote.endpoint import Endpoint, Endpoints
from heddle.engines.remote.generation import silence
from heddle.engines.remote.generation.port import RemoteGenerator
from heddle.engines.remote.generation.prompt_text import TextPrompts
from heddle.engines.remote.http.client import HttpClient
from heddle.engines.remote.http.event_reader import EVENT_BYTES_MAX
from heddle.engines.remote.refusal import SHOWN_CHARS_MAX
from heddle.engines.remote.secret import Secret
from heddle.runtime.clock import SystemClock
from tests.helpers.fake_endpoint import (
    DONE_EVENT,
    END,
    FakeEndpoint,
    Reply,
    Step,
    answer,
    chunk,
    event,
    piece,
    plain,
    stream_head,
)

KEY = Secret("sk-very-secret", "HEDDLE_REMOTE_KEY")
WAIT_S = 20.0
UPSTREAM = "the other side's own words, sk-very-secret"


class Asking:
    """A port under test, driven as the runtime drives it."""

    def __init__(self, port: RemoteGenerator, thread: RuntimeThread) -> None:
        self.port, self.thread = port, thread
        self.arrived = threading.Condition()
        self.events: list[Event] = []
        self._next_id = 1
        port.subscribe(self._on_frames)

    def _on_frames(self) -> None:
        with self.arrived:
            for frame in self.port.frames():
                self.events += frame.events
            self.arrived.notify_all()

    def start(
        self, question: str = "Who?", seconds: float = 60.0, **payload: object
    ) -> tuple[int, int]:
        prefill_id, decode_id = self._next_id, self._next_id + 1
        self._next_id += 2
        identity = Identity(1, "answer")
        prompt = PrefillPayload(TextPrompts().encode_prompt((question,)))
        decode = DecodePayload(prefill_id, Sampling(max_tokens=8), **payload)  # type: ignore[arg-type]
        for task_id, kind, asked in (
            (prefill_id, PrimitiveKind.PREFILLING, prompt),
            (decode_id, PrimitiveKind.DECODING, decode),
        ):
            self.port.send(Admit(Task(task_id, kind, identity, asked, seconds)))
        return prefill_id, decode_id

    def wait(self, is_there: Callable[[Sequence[Event]], bool]) -> list[Event]:
        with self.arrived:
            assert self.arrived.wait_for(lambda: is_there(self.events), WAIT_S), self.events
            return list(self.events)

    def end_of(self, task_id: int) -> Event:
        """Return the one terminal event of a task."""
        ends = (Done, Failed, Cancelled)

        def ended(events: Sequence[Event]) -> bool:
            return any(e.task_id == task_id and isinstance(e, ends) for e in events)

        found = [e for e in self.wait(ended) if e.task_id == task_id and isinstance(e, ends)]
        assert len(found) == 1
        return found[0]

    def text(self) -> str:
        return "".join(e.text for e in self.events if isinstance(e, Progress))

    def ask(self, **how: object) -> Generated:
        end = self.end_of(self.start(**how)[1])  # type: ignore[arg-type]
        assert isinstance(end, Done), end
        assert isinstance(end.result, Generated)
        return end.result

    def fail(self, **how: object) -> Failed:
        end = self.end_of(self.start(**how)[1])  # type: ignore[arg-type]
        assert isinstance(end, Failed), end
        assert end.is_final
        assert "secret" not in end.message
        assert "own words" not in end.message
        return end


Connect = Callable[..., Asking]


@pytest.fixture
def connect() -> Iterator[Connect]:
    with ExitStack() as ending:
        thread = RuntimeThread("test-remote")
        ending.callback(thread.dispose)
        thread.start()
        ending.callback(thread.stop)

        def make(
            *fakes: FakeEndpoint,
            owner: str = "",
            dialect: Dialect = Dialect.CHAT,
            urls: Sequence[str] = (),
        ) -> Asking:
            endpoints = Endpoints(
                [
                    Endpoint(
                        HttpClient(Address.of(url, "--model"), KEY),
                        Abilities("fake-model", dialect, owner),
                    )
                    for url in (*urls, *(fake.url for fake in fakes))
                ]
            )
            port = RemoteGenerator("llm", endpoints, 4, SystemClock(), thread.event_loop)
            ending.callback(thread.call_last, port.close)
            return Asking(port, thread)

        yield make


@pytest.fixture
def fake() -> Iterator[FakeEndpoint]:
    with FakeEndpoint() as running:
        yield running


# -- answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", Dialect)
def test_an_answer_streams_and_is_counted(
    connect: Connect, fake: FakeEndpoint, dialect: Dialect
) -> None:
    asking = connect(fake, dialect=dialect)
    prefill_id, decode_id = asking.start("Who keeps it?")
    end = asking.end_of(decode_id)
    assert isinstance(end, Done)
    assert isinstance(end.result, Generated)
    assert end.result.text == asking.text() == "Ada keeps it."
    assert end.result.finish_reason is FinishReason.STOP
    run = end.result.remote
    assert run is not None
    assert (run.prompt_tokens, run.prompt_tokens_reused, run.tokens, run.tries) == (100, 40, 3, 1)
    first = asking.events[0]
    assert isinstance(first, Done), "the prompt is in before the first text"
    assert (first.task_id, type(first.result)) == (prefill_id, Prefilled)
    (asked,) = fake.generations
    assert asked.path == f"/v1{dialect.value}"
    assert asked.headers["authorization"] == f"Bearer {KEY.value}"
    assert "Who keeps it?" in str(asked.body)


def test_connections_are_kept(connect: Connect, fake: FakeEndpoint) -> None:
    asking = connect(fake)
    for _ in range(3):
        asking.ask()
    assert fake.connections == 1


def test_a_connection_that_rested_too_long_costs_nothing(
    connect: Connect, fake: FakeEndpoint
) -> None:
    asking = connect(fake)
    asking.ask()
    fake.replies.append((Step.CLOSE,))  # as a server that has just closed an idle connection
    answered = asking.ask()
    assert (answered.text, answered.remote.tries) == ("Ada keeps it.", 1)  # type: ignore[union-attr]


def test_a_server_that_does_not_stream_answers_all_the_same(
    connect: Connect, fake: FakeEndpoint
) -> None:
    message = {"role": "assistant", "content": "Ada."}
    whole = {"choices": [{"message": message, "finish_reason": "length"}], "usage": None}
    fake.replies.append(plain(200, whole))
    answered = connect(fake).ask()
    assert (answered.text, answered.finish_reason) == ("Ada.", FinishReason.LENGTH)


def test_a_stream_that_goes_on_behind_its_end_is_left(connect: Connect, fake: FakeEndpoint) -> None:
    fake.replies.append((stream_head(), piece("Ada.", "stop"), chunk(DONE_EVENT), Step.HANG))
    asking = connect(fake)
    assert asking.ask().text == "Ada."
    assert asking.ask().text == "Ada keeps it.", "the next one goes over another connection"
    assert fake.hung_up.wait(WAIT_S)


def test_reasoning_is_no_answer(connect: Connect, fake: FakeEndpoint) -> None:
    thought = {"choices": [{"delta": {"content": None, "reasoning_content": "Hm."}}]}
    end = {"choices": [{"delta": {}, "finish_reason": "length"}]}
    fake.replies.append((stream_head(), event(thought), event(end), chunk(DONE_EVENT) + END))
    answered = connect(fake).ask()
    assert answered.text == ""
    assert answered.remote is not None
    assert any("max_tokens" in note for note in answered.remote.notes)


def test_fields_that_a_server_refuses_are_left_out_told_and_remembered(
    connect: Connect, fake: FakeEndpoint
) -> None:
    for name in ("max_tokens", "temperature"):
        fake.replies.append(plain(400, {"error": {"message": UPSTREAM, "param": name}}))
    asking = connect(fake)
    answered = asking.ask()
    assert answered.text == "Ada keeps it."
    assert answered.remote is not None
    assert any("temperature" in note for note in answered.remote.notes)
    last = fake.generations[-1].body
    assert last["max_completion_tokens"] == 8
    assert {"temperature", "max_tokens"}.isdisjoint(last)
    before = len(fake.generations)
    asking.ask()
    assert len(fake.generations) == before + 1


def test_all_extras_are_left_out_where_a_server_names_none(
    connect: Connect, fake: FakeEndpoint
) -> None:
    fake.replies.append(plain(422, {"detail": UPSTREAM}))
    assert connect(fake, owner=VLLM).ask().text == "Ada keeps it."
    assert "seed" not in fake.generations[-1].body


# -- what goes wrong --------------------------------------------------------------------------

BROKEN: dict[str, tuple[Reply, str]] = {
    "a cut": ((stream_head(), piece("Ada"), Step.CUT), "connection"),
    "an early end": ((stream_head(), piece("Ada"), Step.CLOSE), "closed the connection"),
    "an end without a reason": (
        (stream_head(), piece("Ada"), END),
        "ended its stream in the middle",
    ),
    "an error in its stream": (
        (stream_head(), piece("Ada"), event({"error": {"message": UPSTREAM}})),
        "reported an error",
    ),
    "no JSON": ((stream_head(), piece("Ada"), chunk(b"data: {oh no\n\n")), "no JSON"),
    "another JSON": ((stream_head(), piece("Ada"), event([1, 2])), "no part of an answer"),
    "a number for a text": (
        (stream_head(), piece("Ada"), event({"choices": [{"delta": {"content": 3}}]})),
        "no text",
    ),
    "an event without end": (
        (stream_head(), piece("Ada"), *[chunk(b"x" * 65536)] * (EVENT_BYTES_MAX // 65536 + 2)),
        "an event of more than",
    ),
    "a chunk without a length": ((stream_head(), piece("Ada"), b"zzz\r\n"), "chunk"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_what_breaks_in_mid_answer_has_one_clear_end(
    connect: Connect, fake: FakeEndpoint, how: str
) -> None:
    reply, words = BROKEN[how]
    fake.replies.append(reply)
    asking = connect(fake)
    failed = asking.fail()
    assert words in failed.message
    assert "3 characters" in failed.message
    assert fake.url in failed.message
    assert asking.text() == "Ada"
    assert len(fake.generations) == 1, "what was shown can't be begun again"
    assert asking.ask().text == "Ada keeps it.", "the next question is answered"


REFUSED: dict[str, tuple[Reply, str]] = {
    "a web page": (plain(200, "<html>hello</html>", kind="text/html"), "a web page"),
    "plain text": (plain(200, "hello", kind="text/plain"), "no API of models"),
    "another protocol": ((b"SSH-2.0-OpenSSH_9.2\r\n",), "no API of models"),
    "no such call": (plain(404, "nothing here", kind="text/plain"), "/v1"),
    "no such model": (
        plain(404, {"error": {"message": UPSTREAM, "code": "model_not_found"}}),
        "knows no model",
    ),
    "no entry": (plain(401, {"error": {"message": UPSTREAM}}), "refuses the key"),
    "no quota": (plain(429, {"error": {"code": "insufficient_quota"}}), "quota"),
    "a redirect": (plain(302, "", "Location: http://elsewhere.example/v1\r\n"), "redirects"),
    "a prompt too long": (
        plain(400, {"error": {"message": UPSTREAM, "code": "context_length_exceeded"}}),
        "context",
    ),
    "a prompt too long, in words": (
        plain(400, {"error": {"message": "This model's maximum context length is 4096"}}),
        "longer than the model's context",
    ),
    "not offered": (plain(501, {"error": {"message": UPSTREAM}}), "started without that"),
    "JSON without an answer": (plain(200, {"hello": 1}), "no part of an answer"),
    "a compressed answer": (plain(200, {}, "Content-Encoding: br\r\n"), "compresses"),
}


@pytest.mark.parametrize("how", REFUSED)
def test_what_no_other_try_would_mend_fails_at_once(
    connect: Connect, fake: FakeEndpoint, how: str
) -> None:
    reply, words = REFUSED[how]
    fake.replies.extend([reply] * 5)
    failed = connect(fake).fail()
    assert words in failed.message
    assert "elsewhere.example" not in failed.message
    assert failed.is_input == how.startswith("a prompt too long")
    assert len(fake.generations) == 1


def test_a_refused_request_is_the_callers_fault(connect: Connect, fake: FakeEndpoint) -> None:
    fake.replies.extend([plain(400, {"error": {"message": UPSTREAM}})] * 5)
    failed = connect(fake).fail()
    assert failed.is_input
    assert "(400)" in failed.message


def test_the_other_sides_words_are_logged_at_debug_without_the_key(
    connect: Connect, fake: FakeEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    fake.replies.append(plain(403, {"error": {"message": UPSTREAM}}))
    with caplog.at_level(logging.DEBUG, logger="heddle"):
        connect(fake).fail()
    assert "own words" in caplog.text
    assert "secret" not in caplog.text


def test_a_key_at_the_end_of_what_is_logged_is_hidden_whole(
    connect: Connect, fake: FakeEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    begin = "x" * (SHOWN_CHARS_MAX - len(KEY.value) // 2)
    fake.replies.append(plain(403, f"{begin}{KEY.value}", kind="text/plain"))
    with caplog.at_level(logging.DEBUG, logger="heddle"):
        connect(fake).fail()
    assert begin in caplog.text
    assert KEY.value[:4] not in caplog.text


@pytest.mark.parametrize("status", [500, 502, 503, 429])
def test_a_passing_failure_is_tried_again(
    connect: Connect, fake: FakeEndpoint, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "PAUSE_S", 0.01)
    fake.replies.append(plain(status, "", "Retry-After: 0.01\r\n"))
    answered = connect(fake).ask()
    assert answered.text == "Ada keeps it."
    assert answered.remote is not None
    assert answered.remote.tries == 2


def test_tries_are_bounded(
    connect: Connect, fake: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "PAUSE_S", 0.01)
    fake.replies.extend([plain(500, UPSTREAM)] * 9)
    failed = connect(fake).fail()
    assert "(500)" in failed.message
    assert "3 tries" in failed.message
    assert len(fake.generations) == 3


def test_a_busy_server_without_a_time_is_asked_again_later(
    connect: Connect, fake: FakeEndpoint
) -> None:
    fake.replies.append(plain(429, ""))
    assert connect(fake).ask().text == "Ada keeps it."


def test_a_wait_beyond_the_deadline_is_refused_at_once(
    connect: Connect, fake: FakeEndpoint
) -> None:
    fake.replies.append(plain(429, UPSTREAM, "Retry-After: 3600\r\n"))
    failed = connect(fake).fail(seconds=30.0)
    assert "again in 60 s, and this request has 30 s left" in failed.message
    assert len(fake.generations) == 1


def test_a_server_that_is_not_there_is_told(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "PAUSE_S", 0.01)
    with FakeEndpoint() as gone:
        url = gone.url
    failed = connect(urls=[url]).fail()
    assert "nothing listens there" in failed.message
    assert url in failed.message


def test_another_server_answers_for_one_that_is_not_there(
    connect: Connect, fake: FakeEndpoint
) -> None:
    with FakeEndpoint() as gone:
        url = gone.url
    asking = connect(fake, urls=[url])
    assert asking.ask().text == "Ada keeps it."
    assert asking.ask().text == "Ada keeps it."
    assert len(fake.generations) == 2


def test_another_server_answers_for_one_that_is_busy(connect: Connect, fake: FakeEndpoint) -> None:
    with FakeEndpoint() as busy:
        busy.replies.append(plain(503, "", "Retry-After: 3600\r\n"))
        asking = connect(busy, fake)
        for _ in range(3):
            assert asking.ask(seconds=30.0).text == "Ada keeps it."
        assert (len(busy.generations), len(fake.generations)) == (1, 3)


def test_a_busy_server_is_waited_for_where_the_other_is_not_there(
    connect: Connect, fake: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "PAUSE_S", 0.01)
    with FakeEndpoint() as gone:
        url = gone.url
    fake.replies.append(plain(429, "", "Retry-After: 0.1\r\n"))
    assert connect(fake, urls=[url]).ask().text == "Ada keeps it."


def test_silence_in_mid_answer_ends_it(
    connect: Connect, fake: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silence, "SILENCE_S_MAX", 0.1)
    fake.replies.append((stream_head(), piece("Ada"), Step.HANG))
    assert "has sent nothing" in connect(fake).fail().message
    assert fake.hung_up.wait(WAIT_S)


# -- cancelling -------------------------------------------------------------------------------


@pytest.mark.parametrize("begun", [(), (stream_head(), piece("Ada"))])
@pytest.mark.parametrize("half", [0, 1])
def test_cancelling_hangs_up_within_a_fifth_of_a_second(
    connect: Connect, fake: FakeEndpoint, begun: tuple[bytes, ...], half: int
) -> None:
    fake.replies.append((*begun, Step.HANG))
    asking = connect(fake)
    tasks = asking.start()
    assert fake.hanging.wait(WAIT_S)
    if begun:
        asking.wait(lambda events: any(isinstance(e, Progress) for e in events))
    started_s = time.monotonic()
    asking.port.send(Cancel(tasks[half]))
    assert fake.hung_up.wait(WAIT_S)
    assert time.monotonic() - started_s < 0.2
    for task_id in tasks:
        asking.port.send(Cancel(task_id))
    assert isinstance(asking.end_of(tasks[1]), Cancelled)


def test_a_cancelled_wait_for_a_busy_server_ends(connect: Connect, fake: FakeEndpoint) -> None:
    fake.replies.append(plain(429, "", "Retry-After: 30\r\n"))
    asking = connect(fake)
    _, decode_id = asking.start()
    asking.port.send(Cancel(decode_id))
    assert isinstance(asking.end_of(decode_id), Cancelled)


def test_a_prompt_whose_decode_never_came_is_given_up(connect: Connect, fake: FakeEndpoint) -> None:
    asking = connect(fake)
    prompt = PrefillPayload(TextPrompts().encode_prompt(("Who?",)))
    asking.port.send(Admit(Task(7, PrimitiveKind.PREFILLING, Identity(1, "a"), prompt)))
    asking.port.send(Cancel(7))
    assert isinstance(asking.end_of(7), Cancelled)
    decode = DecodePayload(7, Sampling())
    asking.port.send(Admit(Task(8, PrimitiveKind.DECODING, Identity(1, "a"), decode)))
    end = asking.end_of(8)
    assert isinstance(end, Failed)
    assert "no prompt" in end.message


def test_a_pause_to_retrieve_is_refused(connect: Connect, fake: FakeEndpoint) -> None:
    failed = connect(fake).fail(pause=Pause(after=4))
    assert "retrieve" in failed.message
    assert fake.generations == []


def test_closing_fails_what_is_under_way(connect: Connect, fake: FakeEndpoint) -> None:
    fake.replies.append((stream_head(), piece("Ada"), Step.HANG))
    asking = connect(fake)
    _, decode_id = asking.start()
    assert fake.hanging.wait(WAIT_S)
    asking.thread.post(asking.port.close)
    end = asking.end_of(decode_id)
    assert isinstance(end, Failed)
    assert "closed" in end.message
    assert fake.hung_up.wait(WAIT_S)


def test_answers_in_order_side_by_side(connect: Connect, fake: FakeEndpoint) -> None:
    fake.replies.extend(answer([f"{n} "] * 5) for n in range(8))
    asking = connect(fake)
    ids = [asking.start(f"question {n}")[1] for n in range(8)]
    texts = {asking.end_of(task_id).result.text for task_id in ids}  # type: ignore[union-attr]
    assert texts == {f"{n} " * 5 for n in range(8)}
