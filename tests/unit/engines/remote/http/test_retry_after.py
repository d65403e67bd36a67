"""When a server wants to be asked again."""

from datetime import UTC, datetime

import pytest

from heddle.engines.remote.http.retry_after import retry_after_s

NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "Fri, 01 May 2026 12:00:07 GMT"}, 7.0),
        ({"retry-after": "Fri, 01 May 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Fri, 01 May 99999999999999 12:00:07 GMT"}, None),
        ({"retry-after": ""}, None),
    ],
)
def test_both_forms_are_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, NOW) == seconds
