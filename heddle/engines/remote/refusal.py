"""From a response that is no answer to what went wrong, without a word of the other side."""

import json
import logging
import re
from datetime import UTC, datetime
from typing import Final

from heddle.engines.remote.http.client import Response
from heddle.engines.remote.http.retry_after import retry_after_s
from heddle.engines.remote.problem import RemoteProblem, Trouble
from heddle.engines.remote.secret import Secret

SHOWN_CHARS_MAX: Final = 500  # of the other side's text, in the log at DEBUG
BUSY: Final = (429, 503, 529)
# How servers say it: OpenAI and llama.cpp by a code or a type, vLLM and others in words alone.
_TOO_LONG: Final = re.compile(
    r"context_length_exceeded|exceed_context_size|context (length|size|window)|maximum input length"
)
_NO_QUOTA: Final = "insufficient_quota"
_NO_MODEL: Final = "model_not_found"

log = logging.getLogger(__name__)


def problem_of(response: Response, call: str, key: Secret) -> RemoteProblem:
    """Return what a response with a status other than 200 means.

    Args:
        response: as it came; its text goes to the log at DEBUG, with the key hidden.
        call: the call that was made, such as /models.
        key: that was sent.
    """
    status = response.status
    text = key.redacted(response.body.decode("utf-8", "replace"))  # whole: a cut key is no match
    log.debug("%s answered %d: %s", call, status, text[:SHOWN_CHARS_MAX])
    error = _error_of(response.body)
    code = error.get("code")
    if 300 <= status < 400:
        words = f"redirects elsewhere ({status}), which isn't followed: name the final address"
        return RemoteProblem(Trouble.MOVED, words)
    if status in (401, 403):
        asked = "refuses the key" if key.value else "wants a key"
        return RemoteProblem(Trouble.NO_ENTRY, f"{asked} ({status})")
    if code == _NO_QUOTA:
        return RemoteProblem(
            Trouble.NO_ENTRY, f"says that the account has no quota left ({status})"
        )
    if status in BUSY:
        wait_s = retry_after_s(response.headers, datetime.now(UTC))
        return RemoteProblem(Trouble.BUSY, f"is too busy ({status})", retry_after_s=wait_s)
    if code == _NO_MODEL or (status == 404 and "model" in str(error.get("message", "")).lower()):
        return RemoteProblem(Trouble.NO_MODEL, f"knows no model of this name ({status})")
    if status == 501:
        words = f"doesn't offer {call} (501): it was started without that"
        return RemoteProblem(Trouble.NO_API, words)
    if status in (404, 405):
        words = f"has no {call} ({status}); the address of an API usually ends in /v1"
        return RemoteProblem(Trouble.NO_API, words)
    if status >= 500 or status == 408:
        words = f"failed with an error of its own ({status}); --verbose logs its reason"
        return RemoteProblem(Trouble.FAILED, words)
    if status == 413 or _TOO_LONG.search(" ".join(map(str, error.values())).lower()):
        words = f"can't take this much text ({status}): it is longer than the model's context"
        return RemoteProblem(Trouble.TOO_LONG, words)
    if status < 300:
        return RemoteProblem(Trouble.GARBAGE, f"answered {status}, which no such API does")
    words = f"refuses the request ({status}); --verbose logs its reason"
    return RemoteProblem(Trouble.REFUSED, words, field=_field(response.body, error))


def no_json(what: str) -> RemoteProblem:
    """Return the problem of an answer that isn't what the API promises."""
    return RemoteProblem(Trouble.GARBAGE, f"sent {what}")


def _error_of(body: bytes) -> dict[str, object]:
    """Return the error object of an OpenAI-like answer; {} where there is none."""
    whole = _object(body)
    inner = whole.get("error")
    if isinstance(inner, dict):
        return inner
    return {"message": inner} if isinstance(inner, str) else whole


def _field(body: bytes, error: dict[str, object]) -> str:
    """Return the field that the other side doesn't take, as OpenAI or pydantic names it."""
    named = error.get("param")
    if isinstance(named, str):
        return named
    detail = _object(body).get("detail")
    first = detail[0] if isinstance(detail, list) and detail else None
    place = first.get("loc") if isinstance(first, dict) else None
    return str(place[-1]) if isinstance(place, list) and place else ""


def _object(body: bytes) -> dict[str, object]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
