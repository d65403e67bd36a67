"""Random workloads: every task ends once, every page comes back, every token is right."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heddle.core.commands import Amend, AmendMode, Cancel, Release
from heddle.core.errors import ConfigError
from heddle.core.frames import Done
from heddle.core.results import Generated, KvHandle
from heddle.core.tasks import Priority
from heddle.engines.llm.scheduler import SchedulerLimits
from tests.unit.engines.llm.fake_worker import Lane, greedy

# Beginnings of two texts: prompts share pages, and part within one.
PROMPTS = st.builds(
    lambda text, length, last: [*text[:length], last],
    st.sampled_from([list(range(3, 25)), [*range(3, 13), *range(30, 45)]]),
    st.integers(0, 21),
    st.integers(3, 40),
)
ACTIONS = st.one_of(
    st.tuples(st.just("step"), st.integers(1, 4)),
    st.tuples(st.just("prompt"), PROMPTS, st.sampled_from(Priority), st.sampled_from("ab")),
    st.tuples(st.just("pending"), PROMPTS, PROMPTS),
    st.tuples(st.just("fill"), st.integers(0, 99), PROMPTS),
    st.tuples(st.just("replace"), st.integers(0, 99), PROMPTS),
    st.tuples(st.just("decode"), st.integers(0, 99), st.integers(1, 10)),
    st.tuples(st.just("cancel"), st.integers(0, 99)),
    st.tuples(st.just("release"), st.integers(0, 99)),
    st.tuples(
        st.just("error"),
    ),
)


class Workload:
    """Plays actions on a lane and remembers what each decode has to say."""

    def __init__(self, lane):
        self.lane = lane
        self.prompts = {}  # prefill -> its segments now
        self.decodes = {}  # decode -> (prefill, max_tokens)
        self.admitted = []
        self.replaced = set()  # prefills that were amended once they were whole

    def play(self, action):
        getattr(self, action[0])(*action[1:])

    def step(self, count):
        for _ in range(count):
            self.lane.step()

    def prompt(self, ids, priority, tenant):
        task_id = len(self.admitted)
        self.admitted.append(task_id)
        self.prompts[task_id] = [tuple(ids)]
        self.lane.prefill(task_id, ids, priority=priority, tenant=tenant)

    def pending(self, head, tail):
        task_id = len(self.admitted)
        self.admitted.append(task_id)
        self.prompts[task_id] = [tuple(head), None, tuple(tail[:4])]
        self.lane.prefill(task_id, head, None, tail[:4])

    def fill(self, pick, ids):
        open_prompts = [t for t, parts in self.prompts.items() if None in parts]
        if open_prompts:
            task_id = open_prompts[pick % len(open_prompts)]
            self.amend(task_id, 1, ids[:6], AmendMode.FILL)

    def replace(self, pick, ids):
        if self.prompts:
            task_id = list(self.prompts)[pick % len(self.prompts)]
            self.amend(task_id, 0, ids, AmendMode.REPLACE)

    def amend(self, task_id, index, ids, mode):
        if None not in self.prompts[task_id]:
            self.replaced.add(task_id)
        self.prompts[task_id][index] = tuple(ids)
        self.lane.engine.apply(Amend(task_id, index, tuple(ids), mode))

    def decode(self, pick, count):
        if self.prompts:
            prefill = list(self.prompts)[pick % len(self.prompts)]
            task_id = len(self.admitted)
            self.admitted.append(task_id)
            self.decodes[task_id] = (prefill, count)
            self.lane.decode(task_id, prefill, max_tokens=count)

    def cancel(self, pick):
        if self.admitted:
            self.lane.engine.apply(Cancel(self.admitted[pick % len(self.admitted)]))

    def release(self, pick):
        if self.prompts:
            task_id = list(self.prompts)[pick % len(self.prompts)]
            self.lane.engine.apply(Release(KvHandle("llm", 3, task_id)))

    def error(self):
        self.lane.worker.error = RuntimeError("planted")
        self.lane.step()
        self.lane.worker.error = None

    def finish(self):
        for task_id, parts in self.prompts.items():
            if None in parts:
                self.amend(task_id, 1, (3, 4), AmendMode.FILL)
        self.lane.drain()
        for task_id in self.prompts:
            self.lane.engine.apply(Release(KvHandle("llm", 3, task_id)))
        self.lane.drain()


@pytest.mark.slow
@settings(max_examples=150, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(ACTIONS, max_size=45), st.integers(10, 24), st.integers(1, 4))
def test_random_workloads(actions, pages, seqs):
    lane = Lane(pages=pages, page_size=4, seqs=seqs, tokens=9, context=40)
    work = Workload(lane)
    for action in actions:
        work.play(action)
    work.finish()
    for task_id in work.admitted:
        end = lane.end(task_id)
        if isinstance(end, Done) and isinstance(end.result, Generated):
            check_tokens(work, task_id, end.result)
    assert lane.engine.scheduler.kv_cache.ledger.held_count == 0
    assert not lane.engine.sequences
    assert not lane.engine.sequences.decoding


def check_tokens(work, task_id, generated):
    prefill, count = work.decodes[task_id]
    assert len(generated.token_ids) <= count
    if prefill in work.replaced:  # its prompt may have been another one at the time
        return
    prompt = tuple(t for part in work.prompts[prefill] for t in part)
    assert generated.token_ids == greedy(prompt, len(generated.token_ids))


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ((0, 8, 4, 8, 8), "max_num_seqs"),
        ((4, 3, 4, 8, 8), "max_num_batched_tokens"),
        ((4, 8, 4, 2, 9), "kv_bytes"),
    ],
)
def test_impossible_limits_name_the_field(limits, field):
    with pytest.raises(ConfigError, match=field):
        SchedulerLimits(*limits)


def test_decodes_are_not_held_up_by_a_long_prompt():
    lane = Lane(tokens=8)
    lane.prefill(1, range(3, 8))
    lane.decode(2, 1, max_tokens=20)
    lane.step()
    lane.prefill(3, range(3, 43))
    for _ in range(5):
        before = len(lane.progress(2))
        frame = lane.step()
        assert len(lane.progress(2)) == before + 1
        assert frame.features["prefill_tokens"] == 7
        assert frame.features["decode_tokens"] == 1


def test_a_prompt_waits_until_its_pages_are_there():
    lane = Lane(pages=8, page_size=4, context=32)
    lane.prefill(1, range(3, 23))
    lane.decode(2, 1, max_tokens=6)
    lane.step()
    lane.prefill(3, range(5, 25))
    frame = lane.step()
    assert frame.load.running == 1
    assert frame.load.waiting == 1
    lane.drain()
    assert lane.result(2).preemptions == 0
    assert lane.result(3).tokens == 20


BASE = tuple(range(3, 19))  # four pages
OTHER = tuple(range(20, 36))


def test_a_page_that_others_read_is_never_written_again():
    lane = Lane(tokens=64)
    lane.prefill(1, BASE, (20,), None)
    lane.drain()
    lane.prefill(2, BASE, (20,))
    lane.drain()
    assert lane.result(2).tokens_reused == 16
    lane.engine.apply(Amend(1, 0, (*BASE[:14], 40, 41), AmendMode.REPLACE))
    lane.engine.apply(Amend(1, 2, (), AmendMode.FILL))
    lane.decode(3, 1, max_tokens=4)
    lane.drain()
    lane.decode(4, 2, max_tokens=4)
    lane.drain()
    assert lane.result(3).token_ids == greedy((*BASE[:14], 40, 41, 20), 4)
    assert lane.result(4).token_ids == greedy((*BASE, 20), 4)


@pytest.mark.parametrize("computed_steps", [1, 2, 9])
def test_a_replaced_prompt_is_found_under_its_new_tokens_only(computed_steps):
    lane = Lane(tokens=8)
    lane.prefill(1, BASE, OTHER, None)
    for _ in range(computed_steps):
        lane.step()
    swapped = OTHER[::-1]
    lane.engine.apply(Amend(1, 1, swapped, AmendMode.REPLACE))
    lane.drain()
    lane.prefill(2, BASE, swapped, (40,))
    lane.prefill(4, BASE, OTHER, (40,))
    lane.decode(3, 2, max_tokens=3)
    lane.decode(5, 4, max_tokens=3)
    lane.drain()
    assert lane.result(2).tokens_reused == 32
    assert lane.result(3).token_ids == greedy((*BASE, *swapped, 40), 3)
    assert lane.result(5).token_ids == greedy((*BASE, *OTHER, 40), 3)


def test_a_cached_prompt_still_computes_its_last_token():
    lane = Lane()
    for task_id in (1, 3):
        lane.prefill(task_id, BASE)
        lane.decode(task_id + 1, task_id, max_tokens=3)
        lane.drain()
        assert lane.result(task_id + 1).token_ids == greedy(BASE, 3)
    assert lane.result(3).tokens_reused == 12


def test_a_sequence_preempted_within_a_plan_is_not_computed():
    lane = Lane(pages=9, page_size=4, tokens=5, context=36)
    lane.prefill(2, OTHER[:3])
    lane.decode(3, 2, max_tokens=20)
    for _ in range(6):
        lane.step()
    lane.prefill(4, BASE[:9], priority=Priority.INTERACTIVE)
    lane.step()  # it runs beside the decode, which comes first in the next plan
    lane.engine.apply(Amend(4, 0, (*BASE, *OTHER), AmendMode.REPLACE))
    lane.drain()
    assert lane.result(4).tokens == 32
    assert lane.result(3).token_ids == greedy(OTHER[:3], 20)
    assert lane.result(3).preemptions > 0


@pytest.mark.parametrize("newest", [Priority.BULK, Priority.NORMAL, Priority.INTERACTIVE])
def test_a_decode_from_another_lane_takes_no_pages_of_one_that_waits_before_it(newest):
    source, lane = Lane(), Lane(pages=14, page_size=4, seqs=1, tokens=32)
    for number in range(3):
        source.prefill(2 * number + 1, range(10 + number, 30 + number))
        source.transfer(2 * number + 2, 2 * number + 1)
    source.drain()
    for number, priority in enumerate((Priority.NORMAL, Priority.NORMAL, newest)):
        kv = source.result(2 * number + 2)
        lane.decode(100 + number, 2 * number + 1, max_tokens=6, prompt=kv, priority=priority)
        if number == 0:
            lane.step()
    lane.drain()
    is_first = newest is Priority.INTERACTIVE
    results = [lane.result(100 + number) for number in range(3)]
    assert [result.preemptions for result in results] == [0, int(is_first), 0]
    assert [bool(result.transfer.problem) for result in results] == [False, False, not is_first]
