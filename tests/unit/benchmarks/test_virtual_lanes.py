"""The replay of embed-admission: every query is answered, and times are the clock's."""

import random

import pytest

from benchmarks.support.virtual_lanes import LaneModel, Query, VirtualService, traffic
from heddle.costs.batch_cost import BatchCost, BatchShape
from heddle.encoder.batch_scheduler import BatchLimits
from heddle.engines.embedding.admission_policies import PredictedFinish, Windve

COST = BatchCost(7e-3, 3e-4)
LANE = LaneModel("fast", COST, (1.0,), BatchLimits(512, 64, 256))


def test_a_lone_query_takes_what_its_step_takes() -> None:
    service = VirtualService([LANE], lambda lanes: PredictedFinish(), True, 0)
    tally = service.run([Query(1.0, 100, 430, slo_s=0.5)])
    assert tally.ended_s == pytest.approx(1.0 + COST.predict_s(BatchShape.uniform(1, 100)))
    assert (tally.in_time, tally.late, tally.busy) == (1, 0, 0)


@pytest.mark.parametrize("burst_s", [0.0, 0.5])
def test_every_query_is_answered_or_refused_and_the_default_is_hardly_ever_late(
    burst_s: float,
) -> None:
    rate = 1.5 * LANE.rate(72)
    queries = traffic(rate, 30.0, 0.5, random.Random(1), burst_s=burst_s)
    tally = VirtualService([LANE], lambda lanes: PredictedFinish(), True, 0).run(queries)
    assert tally.offered == len(queries) == tally.busy + tally.late + tally.in_time
    assert tally.late_share <= 0.005
    by_depth = VirtualService([LANE], lambda lanes: Windve({"fast": 17}), True, 0).run(queries)
    assert by_depth.late_share > 0.02


def test_bursts_have_pauses() -> None:
    queries = traffic(100.0, 4.0, 0.5, random.Random(1), burst_s=1.0)
    assert {int(query.arrival_s) % 2 for query in queries} == {0}
