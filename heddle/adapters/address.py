"""Where a running server is, and the key for it, as a caller gives them."""

import ssl
from typing import Final

import httpx

from heddle.core.errors import ConfigError

PORT_MAX: Final = 65_535


def server_address(url: str) -> str:
    """Return the address of a server, without a slash or /v1 at its end.

    Raises:
        ConfigError: it is none of HTTP.
    """
    base = url.strip().rstrip("/").removesuffix("/v1")
    try:
        parts = httpx.URL(base)
        parts.host.encode("idna")  # as a connection does, which says in a strange way that it can't
        is_address = parts.scheme in ("http", "https") and bool(parts.host)
    except (httpx.InvalidURL, UnicodeError):
        is_address = False
    if not is_address or (parts.port or 0) > PORT_MAX:
        shown = url.rpartition("@")[2]  # what stands before may be a password
        raise ConfigError(
            f"engine {shown!r:.80} is no address of a server: use http://HOST:PORT, "
            "which heddle serve prints"
        )
    return base


def shown_address(address: str) -> str:
    """Return an address for errors and logs: without a user and a password."""
    parts = httpx.URL(address)
    return str(parts.copy_with(userinfo=b"")) if parts.userinfo else address


def server_trust(address: str) -> ssl.SSLContext | bool:
    """Return which certificates of an address are trusted, as httpx takes it.

    They are those that come with httpx, or those that SSL_CERT_FILE or SSL_CERT_DIR names.
    """
    return httpx.create_ssl_context() if address.startswith("https:") else True


def server_key(api_key: str) -> str:
    """Return a key as a header can hold it: without the line end that a file's text ends with.

    Raises:
        ConfigError: no header can hold it; the message doesn't show it.
    """
    key = api_key.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError("api_key holds a character that no key has: copy the key anew")
    return key
