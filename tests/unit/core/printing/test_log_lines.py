"""A log line can't be forged by a name in it."""

import logging
import sys

from heddle.core.printing.log_lines import LineFormatter


def test_a_message_is_one_line_and_its_traceback_follows() -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        problem = sys.exc_info()
    record = logging.LogRecord(
        "heddle.x", logging.WARNING, "f", 1, "can't read %s", ("a\nERROR forged\x1b[2J",), problem
    )
    lines = LineFormatter("%(levelname)s %(name)s: %(message)s").format(record).splitlines()
    assert lines[0] == r"WARNING heddle.x: can't read a\nERROR forged\x1b[2J"
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[-1] == "ValueError: broken"
