"""A server asks for as many open files as its bounds of connections need."""

import resource

import pytest

from heddle.cli.serving.open_files import OWN_FILES, allow_open_files


@pytest.fixture
def limits(monkeypatch):
    """Stand in for the system's limits of this process: soft and hard."""
    kept = [1024, 4096]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(kept))

    def set_limits(_, pair):
        kept[:] = pair

    monkeypatch.setattr(resource, "setrlimit", set_limits)
    return kept


def test_the_soft_limit_is_raised_as_far_as_connections_need(limits, caplog):
    allow_open_files(1024)
    assert limits == [1024 + OWN_FILES, 4096]
    allow_open_files(10)
    assert limits == [1024 + OWN_FILES, 4096]  # never lowered
    assert not caplog.text


def test_a_hard_limit_that_is_too_low_is_told(limits, caplog):
    allow_open_files(8192)
    assert limits == [4096, 4096]
    assert f"8192 connections need {8192 + OWN_FILES}" in caplog.text


def test_a_system_without_a_limit_is_left_alone(limits):
    limits[:] = [resource.RLIM_INFINITY, resource.RLIM_INFINITY]
    allow_open_files(8192)
    assert limits[0] == resource.RLIM_INFINITY
    limits[:] = [1024, resource.RLIM_INFINITY]
    allow_open_files(8192)
    assert limits[0] == 8192 + OWN_FILES
