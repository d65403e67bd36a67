"""The body of a POST: bounded in size and time, parsed, every field checked, for one tenant."""

import asyncio
from collections.abc import Collection
from typing import Any, Final, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from heddle.core.errors import Cancelled
from heddle.server.bodies.problems import problem_of
from heddle.server.bodies.unknown_fields import UnknownFields
from heddle.server.keys.access import own_tenant

BODY_BYTES_MAX: Final = 1 << 20
BODY_S: Final = 15.0
B = TypeVar("B", bound=BaseModel)


class OpenBody(BaseModel):
    """A body whose unknown fields are ignored, with a line in the log: clients send their own."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, allow_inf_nan=False)

    def unknown_fields(self) -> Collection[str]:
        """Return the names of the fields that no API defines.

        Raises:
            InputError: a field that an API defines can't be ignored.
        """
        return self.model_extra or ()


OB = TypeVar("OB", bound=OpenBody)


async def read_json(request: Request, kind: type[B]) -> B:
    """Read and check a request's body; its tenant is the one of the request's key, if it has one.

    Raises:
        HTTPException: it is larger than 1 MiB (413), not said to be JSON (415), took longer than
            15 s to come (408), or names the tenant of another key (403).
        InputError: it is no JSON object of the known fields; the message names the field.
        Cancelled: the client went away while it sent.
    """
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        # A browser asks before it sends JSON elsewhere: no page can put questions in secret.
        raise HTTPException(415, "send JSON, with the header Content-Type: application/json")
    try:
        async with asyncio.timeout(BODY_S):
            body = await _body(request)
        found = kind.model_validate_json(body)
    except TimeoutError as error:
        message = f"the body took longer than {BODY_S:g} s to come"
        raise HTTPException(408, message, {"Connection": "close"}) from error
    except ValidationError as error:
        raise problem_of(error, kind) from error
    except ClientDisconnect as error:
        raise Cancelled("the client went away") from error
    named = getattr(found, "tenant", None)
    if not isinstance(named, str):
        return found
    return found.model_copy(update={"tenant": own_tenant(request.scope, named)})


def body_schema(kind: type[BaseModel]) -> dict[str, Any]:
    """Return what the description of a route says of its body, which the route itself reads."""
    content = {"application/json": {"schema": kind.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}


async def read_open(request: Request, kind: type[OB]) -> OB:
    """Read and check a body, and log what is ignored.

    Raises:
        HTTPException, InputError, Cancelled: as `read_json`, or a field can't be ignored.
    """
    asked = await read_json(request, kind)
    told: UnknownFields = request.app.state.unknown_fields
    told.tell(asked.unknown_fields())
    return asked


async def _body(request: Request) -> bytes:
    # An announced length spares the transfer of a body that is too long; it is optional.
    announced = request.headers.get("content-length", "0")
    body = bytearray()
    if announced.isdecimal() and int(announced) <= BODY_BYTES_MAX:
        async for part in request.stream():
            body += part
            if len(body) > BODY_BYTES_MAX:
                break
        else:
            return bytes(body)
    raise HTTPException(413, f"the body is larger than {BODY_BYTES_MAX:,} bytes: shorten it")
