"""Where a remote model is: the address that the user has named."""

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, Self
from urllib.parse import urlsplit

from heddle.core.errors import ConfigError

PORTS: Final = {"http": 80, "https": 443}
CALLS: Final = ("/chat/completions", "/completions", "/embeddings", "/rerank", "/models")
_UNSAFE: Final = re.compile(r"[^!-~]")  # no blank, no control character, nothing that needs quoting


@dataclass(frozen=True, slots=True)
class Address:
    """The base of an API, such as http://127.0.0.1:8000/v1.

    Args:
        scheme: http or https.
        host: a name, or an IP address without brackets.
        port: of TCP.
        path: what stands before the name of each call, without a slash at its end.
    """

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def of(cls, url: str, what: str) -> Self:
        """Read a URL.

        Args:
            url: as the user wrote it.
            what: the setting that names it, for messages.

        Raises:
            ConfigError: it is no address of an API; the message never shows a password.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
            (parts.hostname or "").encode("idna")  # as a connection does, of a name of ASCII, too
        except ValueError:
            raise ConfigError(f"{what}: the address can't be read; write {_FORM}") from None
        if "@" in parts.netloc:
            raise ConfigError(
                f"{what}: the address holds a user or a password; leave them out, and set "
                "HEDDLE_REMOTE_KEY to the key of the server"
            )
        if parts.scheme not in PORTS or not parts.hostname or _UNSAFE.search(url):
            raise ConfigError(f"{what}: {url!r} is no address of an API; write {_FORM}")
        if parts.query or parts.fragment:
            raise ConfigError(f"{what}: {url!r} has a query, which no API address has; {_FORM}")
        path = parts.path.rstrip("/")
        for call in CALLS:
            if path.endswith(call):
                raise ConfigError(
                    f"{what}: {url!r} names one call; write the address without {call}"
                )
        return cls(parts.scheme, parts.hostname, port or PORTS[parts.scheme], path)

    @property
    def authority(self) -> str:
        """Host and port as a URL and the Host header have them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def is_here(self) -> bool:
        """Whether what is sent stays on this machine."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_readable(self) -> bool:
        """Whether others on the network could read what is sent."""
        return self.scheme == "http" and not self.is_here

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


_FORM: Final = "http://HOST:PORT/v1, or https://HOST/v1"
