"""When the other side wants to be asked again."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds until the next try; None where the headers don't say.

    Both forms of Retry-After are read, seconds and a date, and OpenAI's `retry-after-ms`.
    """
    millis = _number(headers.get("retry-after-ms"))
    if millis is not None:
        return millis / 1e3
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or text is None:
        return seconds
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max(0.0, (at - now).total_seconds())


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if isfinite(value) and value >= 0 else None
