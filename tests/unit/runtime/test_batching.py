"""Which primitives go first: Teola's figure 7, its baselines, and no request starves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.core.errors import ConfigError
from heddle.runtime.batching import (
    POLICIES,
    Pending,
    algorithm2_strict,
    blind,
    per_invocation,
    policy_named,
    topology_aware,
)
from heddle.runtime.engine_scheduler import EngineScheduler


def pending(name, request, depth, arrival_s=0.0, rows=1, **options):
    return Pending(request, name, depth, rows, arrival_s, **options)


# Teola figure 7: two queries, engine slots for two. Query 1 holds A, from which its longest way
# leads on, and the shallower B; query 2 came later with H, deeper than its G.
FIGURE_7 = (
    pending("A", 1, 3, 0.0),
    pending("B", 1, 1, 0.1),
    pending("G", 2, 1, 0.2),
    pending("H", 2, 3, 0.3),
)


def names(takes):
    return [take.primitive for take in takes]


class TestFigure7:
    @pytest.mark.parametrize("policy", [topology_aware, algorithm2_strict])
    def test_topology_aware_batches_the_deepest_of_each_query(self, policy):
        assert names(policy(FIGURE_7, 2, 0)) == ["A", "H"]

    def test_blind_takes_what_came_first(self):
        assert names(blind(FIGURE_7, 2, 0)) == ["A", "B"]

    def test_per_invocation_takes_one_at_a_time(self):
        assert names(per_invocation(FIGURE_7, 2, 0)) == ["A"]
        assert per_invocation(FIGURE_7, 2, 1) == ()

    def test_shallow_ones_fill_what_the_deepest_leave_free(self):
        assert names(topology_aware(FIGURE_7, 3, 0)) == ["A", "H", "B"]
        assert names(topology_aware(FIGURE_7, 9, 0)) == ["A", "H", "B", "G"]

    def test_the_printed_algorithm_lets_those_slots_idle(self):
        assert names(algorithm2_strict(FIGURE_7, 9, 0)) == ["A", "H"]

    def test_requests_of_one_run_stand_in_one_bucket(self):
        late = pending("C", 3, 4, 0.0, bucket=1)  # its run came with the first request
        assert names(topology_aware((*FIGURE_7, late), 2, 0)) == ["C", "H"]

    def test_when_the_deepest_were_sent_the_next_are_the_deepest(self):
        left = [p for p in FIGURE_7 if p.primitive in "BG"]
        assert names(algorithm2_strict(left, 2, 0)) == ["B", "G"]


class TestOrder:
    def test_the_oldest_request_first(self):
        waiting = [pending("late", 1, 9, 5.0), pending("early", 2, 1, 1.0)]
        assert names(topology_aware(waiting, 1, 0)) == ["early"]

    def test_an_urgent_class_before_an_older_request(self):
        waiting = [
            pending("old", 1, 9, 0.0, priority=2),
            pending("urgent", 2, 1, 5.0, priority=0),
        ]
        assert names(topology_aware(waiting, 1, 0)) == ["urgent"]

    def test_equal_arrivals_go_by_request_id(self):
        waiting = [pending("b", 2, 1), pending("a", 1, 1)]
        assert names(topology_aware(waiting, 2, 0)) == ["a", "b"]


class TestRows:
    def test_a_splittable_primitive_takes_what_is_free(self):
        (take,) = topology_aware([pending("many", 1, 1, rows=10, is_splittable=True)], 4, 0)
        assert take.rows == 4

    def test_another_takes_all_of_its_rows_or_none(self):
        assert topology_aware([pending("pair", 1, 1, rows=2)], 1, 0) == ()

    @pytest.mark.parametrize("policy", [topology_aware, algorithm2_strict, blind])
    def test_smaller_ones_don_t_overtake_what_waits_for_room(self, policy):
        waiting = [pending("pair", 1, 1, 0.0, rows=2), pending("single", 2, 1, 1.0)]
        assert policy(waiting, 1, 0) == ()

    def test_what_waits_for_room_gets_it_however_many_come_after(self):
        scheduler = EngineScheduler(topology_aware)
        scheduler.add(pending("pair", 0, 1, 0.0, rows=2))
        for turn in range(1, 50):
            scheduler.add(pending("single", turn, 5, float(turn)))
            if turn == 49:
                assert names(scheduler.decide(2, 0))[0] == "pair"
            else:
                assert scheduler.decide(1, 1) == ()

    def test_what_is_left_of_a_split_primitive_stays_queued(self):
        scheduler = EngineScheduler(topology_aware)
        scheduler.add(pending("many", 1, 1, rows=5, is_splittable=True))
        assert [take.rows for take in scheduler.decide(3, 0)] == [3]
        assert scheduler.pending[1, "many"].rows == 2
        assert [take.rows for take in scheduler.decide(3, 3)] == [2]
        assert not scheduler.pending

    def test_a_request_that_ended_is_forgotten(self):
        scheduler = EngineScheduler(topology_aware)
        scheduler.add(pending("a", 1, 1))
        scheduler.add(pending("b", 2, 1))
        scheduler.drop_request(1)
        assert names(scheduler.decide(9, 0)) == ["b"]


waiting_lists = st.lists(
    st.builds(
        pending,
        st.sampled_from("abcdefgh"),
        st.integers(1, 5),
        st.integers(0, 6),
        st.floats(0, 9),
        st.integers(1, 4),
        priority=st.integers(0, 2),
        is_splittable=st.booleans(),
    ),
    max_size=12,
    unique_by=lambda p: (p.request_id, p.primitive),
)


@given(waiting_lists, st.integers(1, 12), st.integers(0, 3), st.sampled_from(sorted(POLICIES)))
def test_no_policy_takes_more_than_is_free_or_anything_twice(waiting, rows_free, in_flight, name):
    takes = POLICIES[name](waiting, rows_free, in_flight)
    keys = [(take.request_id, take.primitive) for take in takes]
    by_key = {(p.request_id, p.primitive): p for p in waiting}
    assert sum(take.rows for take in takes) <= rows_free
    assert len(set(keys)) == len(keys)
    for take in takes:
        whole = by_key[take.request_id, take.primitive]
        assert 0 < take.rows <= whole.rows
        assert take.rows == whole.rows or whole.is_splittable


@given(waiting_lists, st.integers(1, 12))
def test_topology_aware_conserves_work(waiting, rows_free):
    """Rows stay free only when all is placed, or when what comes next needs more of them."""
    takes = topology_aware(waiting, rows_free, 0)
    placed = {(take.request_id, take.primitive): take.rows for take in takes}
    left = rows_free - sum(placed.values())
    rest = [p for p in waiting if placed.get((p.request_id, p.primitive)) != p.rows]
    assert left == 0 or not rest or any(p.rows > left for p in rest)


@given(waiting_lists, st.integers(1, 12))
def test_an_idle_engine_is_given_something(waiting, rows_free):
    fits = all(p.is_splittable or p.rows <= rows_free for p in waiting)
    for policy in POLICIES.values():
        assert bool(policy(waiting, rows_free, 0)) == bool(waiting) or not fits


def test_an_unknown_policy_is_refused():
    assert policy_named("blind") is blind
    with pytest.raises(ConfigError, match="topology_aware"):
        policy_named("clever")
