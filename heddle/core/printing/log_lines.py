"""Log records as lines: each is one, also where its message has line breaks."""

import logging

from heddle.core.printing.printable import printable_line


class LineFormatter(logging.Formatter):
    """Formats a record's message as one line; the traceback of an error follows as it is."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line of a record, without its traceback."""
        return printable_line(super().formatMessage(record))


def log_lines(form: str) -> None:
    """Log to stderr, a line for each record.

    Mutates: the root logger, unless it has handlers already.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter(form))
    logging.basicConfig(handlers=[handler])
