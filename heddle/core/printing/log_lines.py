"""Log records as lines: each is one, also where its message has line breaks."""

import json
import logging
from datetime import UTC, datetime
from enum import Enum
from typing import Final

from heddle.core.printing.printable import printable_line

REQUEST_ID: Final = "request_id"
"""Attribute of a record that has the id of the request it belongs to."""


class LogFormat(Enum):
    """What a line of the log is."""

    TEXT = "text"
    JSON = "json"


class LineFormatter(logging.Formatter):
    """Formats a record's message as one line; the traceback of an error follows as it is."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line of a record, without its traceback."""
        return printable_line(super().formatMessage(record))


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object, which has its traceback as a field.

    Args:
        lane: the lane that this process is; "" = it is none.
    """

    def __init__(self, lane: str = "") -> None:
        super().__init__()
        self._lane = {"lane": lane} if lane else {}

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        at = datetime.fromtimestamp(record.created, UTC)
        request_id = getattr(record, REQUEST_ID, "")
        fields = {
            "time": at.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **self._lane,
            **({REQUEST_ID: request_id} if request_id else {}),
            **self._exception(record),
        }
        return json.dumps(fields)

    def _exception(self, record: logging.LogRecord) -> dict[str, str]:
        parts = []
        if record.exc_info and record.exc_info[0] is not None:
            parts.append(self.formatException(record.exc_info))
        if record.stack_info:
            parts.append(self.formatStack(record.stack_info))
        return {"exception": "\n".join(parts)} if parts else {}


class _InForce:
    """How this process logs; the processes that it starts log the same way."""

    format = LogFormat.TEXT


def log_lines(form: str, format: LogFormat = LogFormat.TEXT, lane: str = "") -> None:
    """Log to stderr, a line for each record.

    Args:
        form: of a line of text.
        format: text or JSON.
        lane: the lane that this process is; "" = it is none.

    Mutates: the root logger, unless it has handlers already.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter(form))
    logging.basicConfig(handlers=[handler])
    set_log_format(format, lane)


def set_log_format(format: LogFormat, lane: str = "") -> None:
    """Go over to JSON, where that is asked for.

    Mutates: the formatters of the root logger's handlers that `log_lines` added.
    """
    _InForce.format = format
    if format is LogFormat.JSON:
        ours = (h for h in logging.getLogger().handlers if isinstance(h.formatter, LineFormatter))
        for handler in ours:
            handler.setFormatter(JsonFormatter(lane))


def log_format() -> LogFormat:
    """Return how this process logs."""
    return _InForce.format
