"""For all tests: Triton's interpreter where there is no GPU, and log levels as each found them."""

import logging
import os
from collections.abc import Iterator

import pytest

from heddle.hosts.machine import read_machine

# Triton reads this when it is first imported, which some test modules do at their top.
if not read_machine().gpus:
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(autouse=True)
def _log_levels() -> Iterator[None]:
    """A command that runs in a test sets the levels of its process: the next test has its own."""
    loggers = (logging.getLogger(), logging.getLogger("heddle"))
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
