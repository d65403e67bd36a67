"""What other engines say is checked: a bad result fails its task, a bad frame all that it has."""

import numpy as np
import pytest

from heddle.core.commands import Admit
from heddle.core.frames import Done, Failed, Frame, Progress
from heddle.core.payloads import EmbedPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import ToolResult, Vectors
from heddle.core.tasks import Identity, Task
from heddle.hosts.checked_port import CheckedPort
from tests.helpers.fake_ports import EMBED, FakePort


def admit(task_id, *texts):
    identity = Identity(1, "node")
    return Admit(Task(task_id, PrimitiveKind.EMBEDDING, identity, EmbedPayload(texts)))


@pytest.fixture
def inner():
    port = FakePort("own", EMBED)
    port.holds = lambda task: True
    return port


@pytest.fixture
def checked(inner):
    return CheckedPort(inner, dim=2)


def events_of(port):
    return [event for frame in port.frames() for event in frame.events]


def test_results_pass_unchanged_and_partial_ones_do_not(inner, checked):
    checked.send(admit(1, "one", "two"))
    inner.post(Progress(1))
    inner.answer(1)
    (done,) = events_of(checked)
    assert done.result.values.shape == (2, 2)
    assert (checked.name, checked.kinds, checked.credits) == ("own", EMBED, inner.credits)
    assert checked.due_s == float("inf")


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (ToolResult(1), "answered by Vectors, not by ToolResult"),
        (Vectors(np.zeros((1, 2), np.float32)), "1 rows for 2 asked"),
        (Vectors(np.zeros((2, 3), np.float32)), "length 3, the corpus 2"),
        (Vectors(np.zeros((2, 2))), "array .* of float32"),
        (Vectors(np.full((2, 2), np.nan, np.float32)), "no finite number"),
    ],
)
def test_a_bad_result_fails_its_task_for_good(inner, checked, result, words):
    checked.send(admit(1, "one", "two"))
    checked.send(admit(2, "one"))
    inner.answer(1, result)
    inner.answer(2)
    failed, done = events_of(checked)
    assert isinstance(failed, Failed)
    assert failed.is_final
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(failed.message)
    assert isinstance(done, Done)


@pytest.mark.parametrize("frame", ["no frame", Frame("own", 1, 0.0, ("no event",))])
def test_a_frame_that_is_none_fails_what_is_under_way(inner, checked, frame):
    checked.send(admit(1, "one"))
    inner.deliver(frame)
    (failed,) = events_of(checked)
    assert "its frames can't be read: TypeError" in failed.message
    inner.deliver(Frame("own", 1, 0.0, ()))
    assert events_of(checked) == []


def test_a_port_that_raises_fails_the_task_that_it_was_given(inner, checked):
    woken = []
    checked.subscribe(lambda: woken.append(True))

    def refuse(command):
        raise OSError("the line is cut")

    inner.send = refuse
    checked.send(admit(1, "one"))
    (failed,) = events_of(checked)
    assert failed.message == "send raised OSError: the line is cut"
    assert woken == [True]


def test_what_ended_before_an_unreadable_frame_has_ended_once(inner, checked):
    for task_id in (1, 2, 3):
        checked.send(admit(task_id, "one"))
    inner.answer(1)
    good = tuple(inner.frames())
    inner.frames = lambda: [*good, "no frame"]
    ends = [(type(event), event.task_id) for event in events_of(checked)]
    assert ends == [(Done, 1), (Failed, 2), (Failed, 3)]
