"""Many courses at once get the answers that each would get alone, in any places."""

import numpy as np
import pytest

from heddle.engines.vector.ivf.early_stop.course import Course, Record, Start
from heddle.engines.vector.ivf.early_stop.course_table import FIRST_PLACES, CourseTable
from heddle.engines.vector.ivf.early_stop.hit_model import HitModel
from heddle.engines.vector.ivf.early_stop.known_hits import KnownHits
from heddle.engines.vector.ivf.early_stop.scans import AHEAD, Scans
from heddle.engines.vector.ivf.early_stop.stop_rule import StopRule

RULES = [
    StopRule(HitModel(np.array([-2.0, -3.0, 0.5, -0.2, 0.1, 0.05, 0.3])), limit)
    for limit in (0.05, 0.3)
]


def course(rng, *, is_sample=False, rule=RULES[0], width=None):
    width = width or int(rng.integers(1, 3 * AHEAD))
    looks = np.unique([*rng.integers(1, width + 1, 5), width])
    return Course(
        Start(int(rng.integers(1 << 30)), 0, int(rng.integers(1, 20)), 1),
        rng.standard_normal(4).astype(np.float32),
        None,
        np.arange(width),
        np.sort(rng.random(width)),
        rng.integers(0, 500, width),
        rng.random(width),
        looks,
        None,
        rule,
        Record() if is_sample else None,
    )


def missing_alone(one, look, kth):
    """What one course's model expects to be missing at a look, by the formula for samples."""
    scans = Scans(
        one.start.k,
        one.looks,
        one.distances[None],
        one.sizes[None],
        one.bonuses[None],
        np.zeros((1, len(one.lists)), np.int64),
        np.full((1, len(one.looks)), kth),
        np.ones((1, len(one.looks))),
    )
    return one.rule.model.missing(scans)[0, look]


def test_each_may_stop_where_its_own_rule_says_so():
    rng = np.random.default_rng(1)
    table = CourseTable()
    courses = {}
    for number in range(3 * FIRST_PLACES):
        one = course(rng, rule=[*RULES, None][number % 3])
        courses[table.put(one)] = one
        if number % 4 == 3:  # places are used again
            place = int(rng.choice(list(courses)))
            assert table.free(place) is courses.pop(place)
    places = np.array(list(courses))
    looks = dict.fromkeys(courses, 0)
    seen = set()
    while True:
        kth = rng.random(len(places))
        may_stop = table.may_stop(places, kth)
        for number, place in enumerate(places.tolist()):
            one, look = courses[place], looks[place]
            assert table.scanned(places)[number] == one.looks[look]
            assert table.is_at_end(places)[number] == (look == len(one.looks) - 1)
            alone = one.rule is not None and missing_alone(one, look, kth[number]) <= one.rule.limit
            assert may_stop[number] == alone
            seen.add(alone)
        going = places[~table.is_at_end(places)]
        if not len(going):
            break
        table.advance(going)
        for place in going.tolist():
            looks[place] += 1
    assert seen == {True, False}


def test_a_place_knows_nothing_of_who_was_there_before():
    rng = np.random.default_rng(2)
    table = CourseTable()
    place = table.put(course(rng, width=200, is_sample=True))
    ids = np.arange(20)[None]
    table.learn(place, KnownHits(ids, ids, np.ones((1, 20), np.float32)))
    assert table.knows[place]
    assert table.known(np.array([place])).vectors == 20
    table.free(place)
    while (again := table.put(course(rng, width=3))) != place:
        pass
    assert not table.knows[again]
    assert not table.is_sample[again]
    few = KnownHits(ids[:, :2], ids[:, :2], np.ones((1, 2), np.float32))
    table.learn(again, few)
    known = table.known(np.array([again]))
    assert known.vectors == 2
    np.testing.assert_array_equal(known.chunk_ids[0, 2:], -1)
    assert np.isinf(known.distances[0, 2:]).all()


def test_a_place_that_nobody_has_can_not_be_left():
    with pytest.raises(AssertionError, match="no course is in place 3"):
        CourseTable().free(3)
