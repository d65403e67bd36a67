from copy import deepcopy

from benchmarks.coscheduling.recorded_work import RecordedWork
from heddle.core.commands import Admit
from heddle.core.frames import Done, Frame
from heddle.core.payloads import DecodePayload, PrefillPayload, Sampling, Segment, SegmentRole
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import FinishReason, Generated
from heddle.core.tasks import Identity, Task


def sent(work, task_id, request_id, payload):
    identity = Identity(request_id, "answer")
    work.sent(Admit(Task(task_id, PrimitiveKind.PREFILLING, identity, payload), 0))


def prefilled_and_decoded(work, request_id, first_task):
    pieces = (Segment((1, 2)), Segment((3, 4, 5), SegmentRole.CHUNK))
    sent(work, first_task, request_id, PrefillPayload(pieces))
    sent(work, first_task + 1, request_id, DecodePayload(first_task, Sampling()))
    done = Done(first_task + 1, Generated("text", (7, 8, 9), FinishReason.LENGTH))
    work.told(Frame("llm", 1, 0.5, (done,), features={"call": 1.0, "prefill_tokens": 5.0}))


def test_a_prompt_has_its_segments_and_what_was_written_behind_it() -> None:
    work = RecordedWork()
    work.begins(1, "oneshot")
    prefilled_and_decoded(work, request_id=1, first_task=10)
    (request,) = work.as_json()["requests"]
    assert request["workflow"] == "oneshot"
    assert request["calls"] == [
        {"node": "answer", "segments": [("text", 2), ("chunk", 3)], "written": 3}
    ]


def test_requests_of_other_programs_are_not_recorded_but_their_work_is() -> None:
    work = RecordedWork()
    prefilled_and_decoded(work, request_id=99, first_task=10)
    assert work.as_json()["requests"] == []
    prefilled_and_decoded(work, request_id=98, first_task=20)
    assert work.sums["llm"] == {"seconds": 1.0, "steps": 2.0, "call": 2.0, "prefill_tokens": 10.0}


def test_a_number_that_comes_again_is_another_request() -> None:
    work = RecordedWork()
    for workflow in ("oneshot", "irg"):
        work.begins(1, workflow)
        prefilled_and_decoded(work, request_id=1, first_task=10)
    assert [name for name, calls in work.requests if len(calls) == 1] == ["oneshot", "irg"]


def test_what_was_added_since_is_told_without_the_seconds() -> None:
    work = RecordedWork()
    prefilled_and_decoded(work, request_id=1, first_task=10)
    before = deepcopy(work.sums)
    prefilled_and_decoded(work, request_id=2, first_task=20)
    work.told(Frame("vector", 1, 0.1, (), features={"lists": 3.0}))
    assert work.since(before) == {
        "llm": {"steps": 1.0, "call": 1.0, "prefill_tokens": 5.0},
        "vector": {"steps": 1.0, "lists": 3.0},
    }
