import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.core.call_order import CallOrder, FirstServed
from heddle.core.errors import ConfigError
from heddle.core.payloads import EmbedPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity, Task

SECONDS = st.floats(0, 1e4)


def call(request_id: int = 0, depth: int = 0, seconds_left: float = math.inf) -> Task:
    identity = Identity(request_id, "node", depth)
    return Task(0, PrimitiveKind.EMBEDDING, identity, EmbedPayload(("text",)), seconds_left)


def test_of_two_that_come_together_the_shorter_is_first():
    order = CallOrder()
    assert order.rank(call(), 5.0, 0.1) < order.rank(call(), 5.0, 0.2)


def test_a_long_call_is_overtaken_until_it_has_waited_ten_times_its_work():
    order = CallOrder(ageing=0.1)
    long = order.rank(call(), 0.0, 2.0)
    assert order.rank(call(), 19.0, 0.05) < long < order.rank(call(), 19.9, 0.05)


@given(SECONDS, SECONDS, SECONDS)
def test_nothing_that_comes_once_a_call_is_due_overtakes_it(came_s, own_s, later_s):
    order = CallOrder(ageing=0.5)
    due_s = order.rank(call(), came_s, own_s)
    assert order.rank(call(), due_s + later_s, 0.0) >= due_s


def test_a_deadline_pulls_a_call_forward_but_never_before_it_came():
    order = CallOrder()
    assert order.rank(call(seconds_left=3.0), 10.0, 1.0) == 12.0
    assert order.rank(call(seconds_left=0.5), 10.0, 1.0) == 10.0


def test_by_arrival_sizes_and_deadlines_count_for_nothing():
    order = CallOrder(FirstServed.ARRIVAL)
    assert order.rank(call(seconds_left=0.1), 7.0, 99.0) == 7.0


def test_by_request_a_call_is_as_old_as_its_run():
    order = CallOrder(FirstServed.REQUEST)
    late = call(request_id=9, depth=1)
    joined = late._replace(identity=late.identity._replace(first_request=2))
    assert order.rank(joined, 7.0, 1.0) < order.rank(call(request_id=3), 1.0, 1.0)
    assert order.rank(late, 7.0, 1.0) > order.rank(call(request_id=3), 1.0, 1.0)


def test_by_request_the_oldest_is_first_and_in_it_the_deepest():
    order = CallOrder(FirstServed.REQUEST)
    wanted = [(1, 3), (1, 0), (2, 9), (2, 1)]
    by_rank = sorted(wanted[::-1], key=lambda call_of: order.rank(call(*call_of), 0.0, 1.0))
    assert by_rank == wanted


@pytest.mark.parametrize("ageing", [0.0, -1.0, math.nan])
def test_ageing_must_be_positive(ageing):
    with pytest.raises(ConfigError, match="ageing must be above 0"):
        CallOrder(ageing=ageing)
