"""Faults are what these tests are about: their log lines would bury a failure."""

import logging

import pytest


@pytest.fixture(autouse=True)
def _quiet():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
