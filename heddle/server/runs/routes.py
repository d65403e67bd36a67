"""The route that ends a run of another program."""

import asyncio
from functools import partial
from typing import Any, Final

from fastapi import FastAPI, Request
from starlette.responses import Response

from heddle.app.server import Server
from heddle.core.errors import InputError
from heddle.core.tasks import Caller
from heddle.server.keys.access import own_tenant
from heddle.server.limits import TENANT_CHARS_MAX
from heddle.server.wire import encode_json

ACCEPTED: Final = 202
_PARAMETERS: Final = [
    {
        "name": "tenant",
        "in": "query",
        "required": False,
        "schema": {"type": "string", "maxLength": TENANT_CHARS_MAX},
        "description": "whose run it is; none = a run without a tenant",
    }
]
_REPLY: Final[dict[int | str, dict[str, Any]]] = {ACCEPTED: {"description": "Its end is asked for"}}


def add_runs(app: FastAPI, server: Server) -> None:
    """Add the route to an application."""

    @app.delete(
        "/v1/runs/{run}",
        response_model=None,
        status_code=ACCEPTED,
        responses=_REPLY,
        openapi_extra={"parameters": _PARAMETERS},
    )
    async def cancel(run: str, request: Request) -> Response:
        """End all requests under way of a run, which `X-Heddle-Run` has named.

        The reply has `run`; a run that isn't there, or has ended, is left alone.
        """
        caller = Caller(run)
        named = request.query_params.get("tenant", "")
        if len(named) > TENANT_CHARS_MAX:
            raise InputError(f"tenant has more than {TENANT_CHARS_MAX} characters", param="tenant")
        tenant = own_tenant(request.scope, named)
        await asyncio.to_thread(partial(server.cancel_run, caller.run, tenant=tenant))
        return Response(encode_json({"run": caller.run}), ACCEPTED, None, "application/json")
