"""Lanes with roles behind one port: the tokens of one engine, and nothing left behind."""

import gc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.core.commands import Admit, Cancel, Release, Steer
from heddle.core.credits import Credits
from heddle.core.frames import Cancelled, Done, Failed, Progress
from heddle.core.gauges import KV_PAGES_FREE
from heddle.core.payloads import (
    AskPayload,
    DecodePayload,
    PrefillPayload,
    Sampling,
    Segment,
    SequenceKv,
    TransferPayload,
)
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import KvHandle
from heddle.core.tasks import Identity, Priority, Task
from heddle.engines.llm.lanes.disaggregated_port import DisaggregatedPort, LlmLane
from heddle.engines.llm.lanes.lane_role import LaneRole, lane_names, lane_roles
from tests.unit.engines.llm.fake_worker import LanePort, greedy

PROMPT = tuple(range(10, 20))


class Lanes:
    """The port over such lanes, and what the runtime hears; leases end as the runtime ends them."""

    def __init__(self, roles="prefill,decode", seats=4, **sizes):
        self.roles = lane_roles(roles)
        self.ports = [LanePort(name, **sizes) for name in lane_names(self.roles)]
        self.sent = []
        self.port = DisaggregatedPort(
            "llm",
            [LlmLane(p, r, seats) for p, r in zip(self.ports, self.roles, strict=True)],
            lambda port: port.is_up,
            self.sent.append,
            Credits(64),
        )
        self.ends = {}
        self.tokens = {}
        self.frames = []
        self.open_of = {}  # prefill -> tasks of its lease that have not ended
        self._next = 0

    def lanes(self, role):
        return [p for p, r in zip(self.ports, self.roles, strict=True) if r is role]

    def generate(self, prompt=PROMPT, max_tokens=4, request=0, priority=Priority.NORMAL, **how):
        """Send a prefill and its decode as the runtime does; return the ids of both."""
        prefill, decode = self._next + 1, self._next + 2
        self._next += 2
        who = Identity(request, "node", priority=priority)
        payload = PrefillPayload((Segment(tuple(prompt)),), has_rider=True)
        self.port.send(Admit(Task(prefill, PrimitiveKind.PREFILLING, who, payload)))
        payload = DecodePayload(prefill, Sampling(max_tokens=max_tokens, **how))
        self.port.send(Admit(Task(decode, PrimitiveKind.DECODING, who, payload), 1))
        self.open_of[prefill] = {prefill, decode}
        return prefill, decode

    def read(self):
        for frame in self.port.frames():
            self.frames.append(frame)
            assert (frame.lane, frame.number) == ("llm", 0)
            for event in frame.events:
                self._hear(event)

    def _hear(self, event):
        assert event.task_id not in self.ends, "something came after the end"
        if isinstance(event, Progress):
            self.tokens.setdefault(event.task_id, []).extend(event.token_ids)
            return
        self.ends[event.task_id] = event
        for prefill, open_tasks in list(self.open_of.items()):
            open_tasks.discard(event.task_id)
            if not open_tasks:
                del self.open_of[prefill]
                self.port.send(Release(KvHandle("llm", self.port.epoch, prefill)))

    def step(self, *numbers):
        for number in numbers or range(len(self.ports)):
            self.ports[number].step()
        self.read()

    def drain(self, steps=500):
        for _ in range(steps):
            self.step()
            if not any(p.lane.engine.has_work for p in self.ports) and not self.open_of:
                break
        self.assert_idle()

    def assert_idle(self):
        assert not self.open_of, "a task never ended"
        assert [port.held_pages for port in self.ports] == [0] * len(self.ports)
        assert not any(self.port.tasks_by_lane.values())
        assert self.port.frames() == []

    def result(self, task_id):
        end = self.ends[task_id]
        assert isinstance(end, Done), end
        return end.result


def test_it_says_where_a_prompt_went():
    lanes = Lanes("both,both")
    prefills = [lanes.generate(range(n, n + 8), request=n)[0] for n in (1, 2)]
    for prefill in prefills:
        (port,) = [p for p in lanes.ports if p.name == lanes.port.lane_of(prefill)]
        assert prefill in port.sent(PrefillPayload)
    assert len(set(map(lanes.port.lane_of, prefills))) == 2
    lanes.drain()


def test_prompts_are_computed_while_all_decode_seats_are_taken():
    lanes = Lanes(seats=1)
    _, first = lanes.generate(max_tokens=30)
    others = [lanes.generate(range(n, n + 8), request=n)[0] for n in (1, 2, 3)]
    while first not in lanes.ends:
        lanes.step()
    assert all(prefill in lanes.ends for prefill in others)
    lanes.drain()


def test_a_prompt_is_prefilled_here_and_decoded_there():
    lanes = Lanes()
    prefill, decode = lanes.generate(max_tokens=6)
    lanes.drain()
    for port in lanes.ports:  # what the test itself keeps
        port.commands.clear()
        port.lane.events.clear()
        port.lane.frames.clear()
    gc.collect()
    kept = [held for held in gc.get_objects() if isinstance(held, SequenceKv)]
    assert kept == [], "no frame of a lane keeps the prompt's KV"
    generated = lanes.result(decode)
    assert lanes.result(prefill).tokens == len(PROMPT)
    assert generated.token_ids == tuple(lanes.tokens[decode]) == greedy(PROMPT, 6)
    assert generated.transfer.nbytes == 2 * 8 * len(PROMPT)
    assert not generated.transfer.problem
    one, two = lanes.ports
    assert sum(batch.tokens for batch in one.lane.worker.batches) == len(PROMPT)
    assert sum(batch.tokens for batch in two.lane.worker.batches) == 6
    [sent] = lanes.sent
    assert 0 <= sent.sending_s <= generated.transfer.seconds
    assert sent.stepping_s == lanes.frames[0].seconds > 0


@pytest.mark.parametrize(("roles", "is_written"), [("prefill,decode", False), ("both,both", True)])
def test_a_decode_behind_a_guess_stays_on_the_lane_of_the_guess(roles, is_written):
    lanes = Lanes(roles)
    who = Identity(1, "node")
    guess = PrefillPayload((Segment(tuple(PROMPT)),), is_speculative=True, rows=0)
    lanes.port.send(Admit(Task(1, PrimitiveKind.PREFILLING, who, guess)))
    decode = DecodePayload(1, Sampling(max_tokens=4), rows=0)
    lanes.port.send(Admit(Task(2, PrimitiveKind.DECODING, who, decode), 1))
    lanes.drain()
    lanes.read()
    assert isinstance(lanes.ends[1], Done)
    if is_written:
        assert lanes.result(2).token_ids == greedy(PROMPT, 4)
    else:
        assert isinstance(lanes.ends[2], Cancelled)


def test_an_input_that_is_refused_is_told_as_such():
    lanes = Lanes()
    _, bad = lanes.generate(temperature=-1.0)
    lanes.drain()
    assert lanes.ends[bad].is_input


def test_a_lane_that_does_both_keeps_what_it_has_prefilled():
    lanes = Lanes("both,both")
    pairs = [lanes.generate(request=request) for request in range(4)]
    lanes.drain()
    for _, decode in pairs:
        assert lanes.result(decode).token_ids == greedy(PROMPT, 4)
        assert lanes.result(decode).transfer is None
    assert [port.sent(PrefillPayload) for port in lanes.ports] == [[1, 5], [3, 7]]
    assert not lanes.sent


def test_all_prompts_of_a_request_and_its_question_meet_on_one_lane():
    lanes = Lanes("prefill,prefill,decode")
    for request in (4, 7):
        who = Identity(request, "node")
        task = Task(100 + request, PrimitiveKind.ASKING, who, AskPayload((5, 6)))
        lanes.port.send(Admit(task))
        lanes.generate(request=request)
        lanes.drain()
        second, _ = lanes.generate((*PROMPT, 5, 6), request=request)
        lanes.drain()
        assert lanes.result(second).tokens_reused == 8
    even, odd = lanes.lanes(LaneRole.PREFILL)
    assert (len(even.sent(PrefillPayload)), len(odd.sent(PrefillPayload))) == (2, 2)
    assert (even.sent(AskPayload), odd.sent(AskPayload)) == ([104], [107])


def test_the_decode_lane_with_most_free_seats_is_next():
    lanes = Lanes("prefill,decode,decode", seats=4)
    for request in range(4):
        lanes.generate(request=request, max_tokens=30)
    for _ in range(8):
        lanes.step()
    first, second = lanes.lanes(LaneRole.DECODE)
    assert (first.sent(DecodePayload), second.sent(DecodePayload)) == ([2, 6], [4, 8])
    lanes.drain()


def test_prompts_wait_for_a_seat_where_they_are_and_the_urgent_one_is_next():
    lanes = Lanes(seats=2)
    pairs = [lanes.generate(request=request) for request in range(4)]
    urgent = lanes.generate(request=9, priority=Priority.INTERACTIVE)
    one, two = lanes.ports
    assert one.sent(TransferPayload) == [2, 4]
    waiting = []
    while lanes.open_of:
        lanes.step()
        assert len(two.live) <= 3, "the urgent one overtook one whose KV was asked for"
        waiting.append(lanes.frames[-1].load.waiting)
    assert max(waiting) >= 3
    lanes.drain()
    assert urgent[1] in two.sent(DecodePayload)[:2], "the urgent one goes first"
    for _, decode in (*pairs, urgent):
        assert lanes.result(decode).token_ids == greedy(PROMPT, 4)


def test_a_prompt_that_is_not_computed_holds_no_seat_from_one_that_is():
    lanes = Lanes("prefill,prefill,decode", seats=1)
    _, slow = lanes.generate(request=0)
    _, quick = lanes.generate(request=1)
    first, second, decoding = lanes.ports
    assert (first.sent(TransferPayload), second.sent(TransferPayload)) == ([slow], [])
    while quick not in lanes.ends:
        lanes.step(1, 2)
    assert decoding.sent(DecodePayload) == [quick]
    lanes.drain()
    for decode in (slow, quick):
        assert lanes.result(decode).token_ids == greedy(PROMPT, 4)


def test_prompts_for_twice_the_seats_are_on_their_way_at_most():
    lanes = Lanes("prefill,prefill,decode", seats=2)
    slow, quick, decoding = lanes.ports
    for down, count in ((quick, 2), (slow, 3)):
        down.is_up = False
        for _ in range(count):
            lanes.generate(max_tokens=30)
        down.is_up = True
    assert (len(slow.sent(TransferPayload)), len(quick.sent(TransferPayload))) == (2, 0)
    for _ in range(8):
        lanes.step(1)
    assert len(quick.sent(TransferPayload)) == 2
    for _ in range(8):
        lanes.step(0)
    assert len(decoding.live) == 4
    lanes.drain()


@pytest.mark.parametrize("starts_again", [True, False])
def test_a_decode_that_waits_fails_at_once_when_its_prompt_is_lost(starts_again):
    lanes = Lanes(seats=1)
    _, running = lanes.generate(max_tokens=40)
    _, waiting = lanes.generate(request=1)
    for _ in range(8):
        lanes.step()
    assert waiting not in lanes.ends
    if starts_again:
        lanes.ports[0].lose()
    else:
        lanes.ports[0].is_up = False
    lanes.read()
    assert "KV of its prompt was on lane llm-prefill" in lanes.ends[waiting].message
    assert running not in lanes.ends
    lanes.drain()
    assert lanes.result(running).token_ids == greedy(PROMPT, 40)


def test_a_decode_that_waits_fails_as_its_prompt_does():
    lanes = Lanes(seats=1, context=24)
    lanes.generate(max_tokens=10)
    prefill, waiting = lanes.generate(range(30), request=1)
    for _ in range(3):
        lanes.step()
    assert lanes.ends[waiting].message == lanes.ends[prefill].message
    assert lanes.ends[waiting].is_input
    lanes.drain()


def test_a_prompt_sent_as_an_epoch_ends_is_given_back():
    lanes = Lanes()
    lane = lanes.ports[0]
    send = lane.send

    def lost_just_before(command):
        lane.send = send
        lane.lose()
        send(command)

    lane.send = lost_just_before
    _, decode = lanes.generate()
    lanes.drain()  # no page is held at the end
    assert lanes.result(decode).token_ids == greedy(PROMPT, 4)


@pytest.mark.parametrize("role", [LaneRole.PREFILL, LaneRole.DECODE])
def test_a_lost_lane_takes_its_tasks_along_and_nothing_else(role):
    lanes = Lanes(tokens=4)
    pair = lanes.generate(max_tokens=20)
    steps = 1 if role is LaneRole.PREFILL else 8
    for _ in range(steps):
        lanes.step()
    (lane,) = lanes.lanes(role)
    lane.lose()
    lanes.drain()
    lost = pair if role is LaneRole.PREFILL else pair[1:]
    assert all("lane lost" in lanes.ends[task_id].message for task_id in lost)
    again = lanes.generate(max_tokens=20)
    lanes.drain()
    assert lanes.result(again[1]).token_ids == greedy(PROMPT, 20)


def test_kv_that_is_on_its_way_outlives_its_prefill_lane():
    lanes = Lanes()
    _, decode = lanes.generate()
    one, two = lanes.ports
    one.step()
    one.lose()  # it had sent the KV before
    lanes.read()
    assert two.sent(DecodePayload) == [decode]
    lanes.drain()
    assert lanes.result(decode).token_ids == greedy(PROMPT, 4)


def test_kv_that_is_on_its_way_to_a_lost_lane_is_gone():
    lanes = Lanes()
    _, decode = lanes.generate()
    one, two = lanes.ports
    one.step()
    lanes.read()
    two.lose()
    lanes.drain()
    assert "lane lost" in lanes.ends[decode].message


def test_a_lane_that_is_down_gets_nothing_while_another_is_up():
    lanes = Lanes("prefill,prefill,decode,decode")
    lanes.ports[0].is_up = lanes.ports[2].is_up = False
    _, decode = lanes.generate(request=0)
    lanes.drain()
    assert lanes.result(decode).token_ids == greedy(PROMPT, 4)
    assert [bool(port.commands) for port in lanes.ports] == [False, True, False, True]


def test_a_lane_that_is_down_has_no_seats():
    lanes = Lanes("prefill,decode,decode", seats=2)
    lanes.ports[1].is_up = False
    for request in range(4):
        lanes.generate(request=request)
    while lanes.open_of:
        lanes.step()
        assert len(lanes.ports[2].live) <= 2
    lanes.assert_idle()


@pytest.mark.parametrize("steps", range(9))
@pytest.mark.parametrize("seats", [0, 4])
def test_a_cancelled_generation_frees_its_pages_on_both_sides(steps, seats):
    lanes = Lanes(seats=4, tokens=4)
    if not seats:  # others take all seats, so it waits for one
        for request in range(1, 5):
            lanes.generate(request=request, max_tokens=12)
    pair = lanes.generate(max_tokens=40)
    for _ in range(steps):
        lanes.step()
    for task_id in pair:
        lanes.port.send(Cancel(task_id))
    lanes.drain()
    assert isinstance(lanes.ends[pair[1]], Cancelled)


def test_a_cancel_that_crosses_the_kv_on_its_way_wins():
    lanes = Lanes()
    _, decode = lanes.generate()
    lanes.ports[0].step()
    lanes.port.send(Cancel(decode))
    lanes.drain()
    assert isinstance(lanes.ends[decode], Cancelled)
    assert not lanes.ports[1].commands[:-1], "only the lease's end may have come"


def test_a_budget_reaches_every_lane_and_pages_add_up():
    lanes = Lanes("prefill,decode,decode", pages=16)
    lanes.port.send(Steer(budget_s=0.5))
    assert all(Steer(budget_s=0.5) in port.commands for port in lanes.ports)
    for request in range(2):
        lanes.generate(request=request)
    lanes.drain()
    assert lanes.frames[-1].gauges[KV_PAGES_FREE] <= 48
    assert sum(lanes.frames[-1].gauges.values()) == 48
    assert lanes.frames[-1].costs is not None
    before = lanes.port.epoch
    lanes.ports[1].lose()
    assert lanes.port.epoch == before + 1


ACTIONS = st.one_of(
    st.tuples(st.just("generate"), st.integers(0, 5)),
    st.tuples(st.just("cancel"), st.integers(1, 24)),
    st.tuples(st.just("lose"), st.integers(0, 2)),
    st.tuples(st.just("step"), st.integers(0, 2)),
    st.tuples(st.just("read"), st.just(0)),
)


@settings(max_examples=150)
@given(
    roles=st.sampled_from(["prefill,decode,decode", "prefill,prefill,decode", "prefill,both,both"]),
    actions=st.lists(ACTIONS, max_size=60),
    seats=st.integers(1, 3),
)
def test_whatever_happens_every_task_ends_once_and_no_page_stays(roles, actions, seats):
    lanes = Lanes(roles, seats=seats, pages=12, context=24, tokens=6)
    prompts = {}
    for action, number in actions:
        if action == "generate" and len(lanes.open_of) < 12:
            prompt = PROMPT[: 4 + number]
            _, decode = lanes.generate(prompt, max_tokens=5, request=number)
            prompts[decode] = prompt
        elif action == "cancel":
            lanes.port.send(Cancel(number))
        elif action == "lose":
            lanes.ports[number].lose()
        elif action == "step":
            lanes.ports[number].step()
        else:
            lanes.read()
    lanes.drain()
    for decode, prompt in prompts.items():
        end = lanes.ends[decode]
        assert isinstance(end, Done | Failed | Cancelled)
        if isinstance(end, Done):
            assert end.result.token_ids == greedy(prompt, 5)
