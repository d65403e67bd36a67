"""What a key may still use, on a clock that the test sets."""

import math

import pytest

from heddle.server.keys.bucket import Bucket


def test_it_begins_full_and_refills_evenly():
    bucket = Bucket(60)
    assert bucket.wait_s(100.0) == 0
    bucket.take(60)
    assert bucket.wait_s(100.0) == pytest.approx(1.0)
    assert bucket.wait_s(100.5) == pytest.approx(0.5)
    assert bucket.wait_s(101.0) == 0
    bucket.take(1)
    assert bucket.wait_s(101.0) > 0


def test_it_never_holds_more_than_a_minutes_amount():
    bucket = Bucket(2)
    assert bucket.wait_s(0.0) == 0
    bucket.take(1)
    assert bucket.wait_s(3600.0) == 0
    bucket.take(2)
    assert bucket.wait_s(3600.0) == pytest.approx(30.0)


def test_a_debt_is_waited_for():
    bucket = Bucket(60)
    assert bucket.wait_s(0.0) == 0
    bucket.take(180)
    assert bucket.wait_s(0.0) == pytest.approx(121.0)
    assert bucket.wait_s(121.0) == 0


def test_a_clock_that_goes_back_adds_nothing():
    bucket = Bucket(60)
    assert bucket.wait_s(10.0) == 0
    bucket.take(60)
    assert bucket.wait_s(0.0) == pytest.approx(1.0)
    assert bucket.wait_s(10.0) == pytest.approx(1.0)


def test_without_a_limit_there_is_always_some():
    bucket = Bucket(math.inf)
    bucket.take(1e12)
    assert bucket.wait_s(0.0) == 0
