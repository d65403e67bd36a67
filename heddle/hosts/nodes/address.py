"""Where an agent listens, and how a server reaches it."""

import re
import socket
from typing import NamedTuple

from heddle.core.errors import ConfigError
from heddle.hosts.wire.channel import Channel
from heddle.hosts.wire.handshake import OtherSecret, greet
from heddle.hosts.wire.sealed import Sealed

CONNECT_S_MAX = 3.0
# The kernel ends a connection when data has had no answer for this time: a lane whose agent and
# whose link are gone at once must not wait for hours.
UNANSWERED_MS_MAX = 30_000
_FORM = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\s:\[\]]+)):(?P<port>\d{1,5})")


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return it as users write it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def of(cls, text: str, field: str) -> "Address":
        """Return the address that a text names.

        Raises: ConfigError: it isn't of the form HOST:PORT; the message names the field.
        """
        found = _FORM.fullmatch(text.strip())
        is_name = found is None or _can_be_looked_up(found["host"] or "")
        if found is None or not is_name or not int(found["port"]) < 1 << 16:
            raise ConfigError(
                f"{field}: {text!r} is no address: write HOST:PORT, such as 10.0.0.2:7070 or "
                "[fd00::2]:7070"
            )
        return cls(found["six"] or found["host"], int(found["port"]))


def agent_addresses(text: str) -> tuple[Address, ...]:
    """Return the addresses that a text such as "10.0.0.2:7070,10.0.0.3:7070" names.

    Raises:
        ConfigError: one is none.
    """
    return tuple(Address.of(part, "agents") for part in text.split(","))


def _can_be_looked_up(host: str) -> bool:
    """Whether a host can be a name; looking up one like "a..b" raises UnicodeError."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def dial(address: Address, secret: bytes) -> Channel:
    """Connect to an agent, and have both sides prove themselves.

    Raises: OSError: it can't be reached, doesn't answer in time, or has another secret; the
        message names the address.
    """
    try:
        sock = socket.create_connection(address, timeout=CONNECT_S_MAX)
    except OSError as error:
        raise ConnectionError(
            f"no agent answers at {address} ({error}): start heddle agent there, or leave it out"
        ) from error
    try:
        state = greet(sock, secret)
        tune(sock)
    except OSError as error:
        sock.close()
        raise ConnectionError(_refusal(address, error)) from error
    return Channel(sock, Sealed(state))


def _refusal(address: Address, error: OSError) -> str:
    """Return what is wrong with an agent that was reached, and didn't get through the handshake."""
    if isinstance(error, OtherSecret):
        return f"the agent at {address} isn't trusted: {error}; start it with the server's"
    return (
        f"what listens at {address} doesn't answer as an agent ({error}): see that heddle agent "
        "runs there and isn't stopped"
    )


def tune(sock: socket.socket) -> None:
    """Have small messages leave at once, and a dead link noticed by the kernel as well."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNANSWERED_MS_MAX)
