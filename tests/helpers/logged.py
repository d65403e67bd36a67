"""Collect what a module logs, independent of the tests before it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class Lines(logging.Handler):
    """Keeps the messages."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def logged(logger: logging.Logger) -> Iterator[list[str]]:
    """Collect what a logger says from INFO on, and leave the logger as it was.

    Commands that ran in this process set levels, and libraries switch loggers off.
    """
    lines, manager = Lines(), logging.root.manager
    before = logger.level, logger.disabled, manager.disable
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    logger.disabled, manager.disable = False, logging.NOTSET
    try:
        yield lines.messages
    finally:
        logger.removeHandler(lines)
        level, logger.disabled, manager.disable = before
        logger.setLevel(level)
