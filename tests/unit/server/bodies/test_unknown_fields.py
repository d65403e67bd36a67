"""Unknown fields of requests, in the log."""

import logging

import pytest

from heddle.server.bodies.unknown_fields import NAMES_MAX, UnknownFields


def test_an_unknown_field_is_told_once_and_names_are_bounded(caplog: pytest.LogCaptureFixture):
    unknown = UnknownFields()
    with caplog.at_level(logging.INFO, logger="heddle"):
        for _ in range(3):
            unknown.tell(["chat_id", "\nforged"])
        lines = [record.message for record in caplog.records]
        assert len(lines) == 2
        assert "'chat_id'" in lines[0]
        assert "\n" not in lines[1]
        unknown.tell(f"field_{number}" for number in range(2 * NAMES_MAX))
    assert len(caplog.records) == NAMES_MAX
