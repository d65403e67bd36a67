"""Every answer has its request's id, and so has every line of the log that it causes."""

import asyncio
import io
import json
import logging

import httpx
import pytest
from starlette.responses import Response

from heddle.core.printing.log_lines import JsonFormatter
from heddle.server.request_ids import HEADER, RequestIds, request_ids_in_log

log = logging.getLogger("heddle.tests")


async def _app(scope, receive, send) -> None:
    log.warning("at work")
    await Response("well", 418 if scope["path"] == "/tea" else 200)(scope, receive, send)


def answers(*requests: tuple[str, dict[str, str]]) -> list[httpx.Response]:
    async def run() -> list[httpx.Response]:
        transport = httpx.ASGITransport(RequestIds(_app))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return [await client.get(path, headers=headers) for path, headers in requests]

    return asyncio.run(run())


def test_an_id_that_is_given_comes_back_and_others_are_made() -> None:
    given, made, another = answers(("/", {HEADER: "abc-1"}), ("/", {}), ("/", {}))
    assert given.headers[HEADER] == "abc-1"
    assert len(made.headers[HEADER]) == 32
    assert made.headers[HEADER] != another.headers[HEADER]


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "a\x1b[31m"])
def test_what_could_forge_a_line_of_the_log_is_no_id(given: str) -> None:
    [answer] = answers(("/", {HEADER: given}))
    assert len(answer.headers[HEADER]) == 32


def test_the_log_names_the_request(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "heddle"), request_ids_in_log():
        answers(("/tea%0Atime", {HEADER: "abc-2"}), ("/tea", {HEADER: "abc-3"}))
        log.warning("after it")
        lines = caplog.text.splitlines()
    assert lines[0].endswith("at work [request abc-2]")
    assert "GET /tea\\ntime: 200 in 0." in lines[1]
    assert lines[1].endswith("s [request abc-2]")
    assert "GET /tea: 418 in 0." in lines[3]
    assert lines[-1].endswith("after it")


def test_what_is_no_http_request_passes() -> None:
    seen = []

    async def app(scope, receive, send) -> None:
        seen.append(scope["type"])

    asyncio.run(RequestIds(app)({"type": "lifespan"}, None, None))
    assert seen == ["lifespan"]


def test_a_log_of_json_has_the_id_as_a_field(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonFormatter())
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    with request_ids_in_log():
        answers(("/", {HEADER: "abc-4"}))
        log.warning("after it")
    inside, *_, after = map(json.loads, written.getvalue().splitlines())
    assert (inside["message"], inside["request_id"]) == ("at work", "abc-4")
    assert "request_id" not in after


def test_the_log_names_the_request_of_a_bug(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(scope, receive, send) -> None:
        raise RuntimeError("a bug")

    async def serve() -> None:  # as uvicorn does
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/",
            "headers": [(b"x-request-id", b"a-5")],
        }
        try:
            await RequestIds(broken)(scope, None, None)
        except RuntimeError:
            log.exception("Exception in ASGI application")

    with caplog.at_level(logging.INFO, "heddle"), request_ids_in_log():
        asyncio.run(serve())
        lines = caplog.text.splitlines()
    assert "GET /: 500 in 0." in lines[0]
    assert lines[-1] == "RuntimeError: a bug [request a-5]"
