"""Requests are of the run that their HTTP headers name; junk is refused by the header's name."""

import asyncio

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse

from heddle.app.requests.call_identity import current_call
from heddle.server.runs.call_identities import CallIdentities


async def _app(scope, receive, send) -> None:
    identity = await asyncio.to_thread(current_call)  # as submitting does
    run = None if identity is None else identity.caller.run
    await JSONResponse({"run": run, "path": Request(scope).url.path})(scope, receive, send)


def answer(headers: dict[str, str]) -> httpx.Response:
    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(CallIdentities(_app))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get("/", headers=headers)

    return asyncio.run(run())


def test_a_request_is_of_the_run_that_it_names():
    assert answer({"X-Heddle-Run": "r-1"}).json()["run"] == "r-1"
    assert answer({}).json()["run"] is None


def test_a_header_that_cant_be_used_ends_the_request():
    refused = answer({"X-Heddle-Run": "r-1", "X-Heddle-Depth": "deep"})
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "X-Heddle-Depth"
