"""A log line can't be forged by a name in it."""

import json
import logging
import sys
from datetime import datetime

import pytest

from heddle.core.printing.log_lines import (
    JsonFormatter,
    LineFormatter,
    LogFormat,
    log_format,
    set_log_format,
)


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


def test_a_record_is_one_json_object_with_its_traceback_as_a_field() -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        problem = sys.exc_info()
    record = logging.LogRecord(
        "heddle.x", logging.WARNING, "f", 1, "can't read %s", ("a\nb",), problem
    )
    record.request_id = "abc"
    line = JsonFormatter(lane="llm").format(record)
    assert "\n" not in line
    found = json.loads(line)
    assert datetime.fromisoformat(found.pop("time")).tzinfo is not None
    assert found.pop("exception").endswith("ValueError: broken")
    assert found == {
        "level": "WARNING",
        "logger": "heddle.x",
        "message": "can't read a\nb",
        "lane": "llm",
        "request_id": "abc",
    }


def test_only_own_handlers_go_over_to_json(monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = logging.StreamHandler(), logging.StreamHandler()
    own.setFormatter(LineFormatter("%(message)s"))
    monkeypatch.setattr(logging.getLogger(), "handlers", [own, other])
    assert log_format() is LogFormat.TEXT
    try:
        set_log_format(LogFormat.JSON)
        assert log_format() is LogFormat.JSON
    finally:
        set_log_format(LogFormat.TEXT)
    assert isinstance(own.formatter, JsonFormatter)
    assert other.formatter is None
