"""Which names a client may call the server by: a web page can't ask it through a name of its own.

A page of evil.example may make that name stand for 127.0.0.1 after it was loaded (DNS rebinding);
its browser then takes this server for the page's own. The Host header still says evil.example.
"""

import ipaddress
from collections.abc import Collection
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from heddle.server.wire import encode_json, status_error_json

ANY: Final = "*"
LOCAL: Final = "localhost"
MISDIRECTED: Final = 421  # RFC 9110 §15.5.20
SHOWN_CHARS: Final = 100


class AllowedHosts:
    """ASGI middleware that answers a request for another server's name with 421.

    Addresses and `localhost` pass always: no page can be loaded from somewhere else under them.

    Args:
        app: takes the others.
        names: further names, without ports; "*" = all.
    """

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app = app
        self._names = frozenset(name.lower().rstrip(".") for name in (*names, LOCAL))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http" or self._allows(Headers(scope=scope).get("host", "")):
            await self._app(scope, receive, send)
        else:
            await _refusal(Headers(scope=scope)["host"])(scope, receive, send)

    def _allows(self, host: str) -> bool:
        name = host_name(host)
        # HTTP/1.0 needs no Host, and a browser always sends one.
        return not name or ANY in self._names or name in self._names or _is_address(name)


def host_name(host: str) -> str:
    """Return the name in a Host header, in small letters and without its port."""
    name = host.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _refusal(host: str) -> Response:
    name = ascii(host[:SHOWN_CHARS])
    message = (
        f"this server isn't called {name}: ask it by its address, "
        "or start it with --allowed-hosts NAME"
    )
    body = status_error_json(MISDIRECTED, message)
    return Response(encode_json(body), MISDIRECTED, media_type="application/json")
