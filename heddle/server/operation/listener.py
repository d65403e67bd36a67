"""A port that is taken before the models load, and opened after: no client waits for them."""

import socket
from typing import Final

from heddle.core.errors import ConfigError

BACKLOG: Final = 128
FLAGS: Final = ("--host", "--port")


def bound_socket(host: str, port: int, flags: tuple[str, str] = FLAGS) -> socket.socket:
    """Return a socket that is bound, and doesn't listen yet.

    Args:
        host: a name or an address of this machine.
        port: 0 = any free one.
        flags: by which the user names host and port.

    Raises:
        ConfigError: the address or the port can't be used.
    """
    # With the protocol named, asyncio switches Nagle's algorithm off for each connection. Else
    # a stream's first token waits up to 40 ms for the client's acknowledgement of its headers.
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:  # the latter of what can be no name
        raise ConfigError(f"{flags[0]} {host!r} is no address of this machine: {error}") from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise _unusable(host, port, error, flags) from error
    return listener


def listen(listener: socket.socket, host: str, port: int, flags: tuple[str, str] = FLAGS) -> None:
    """Open a bound socket to clients.

    Raises:
        ConfigError: another program bound the same port and was faster.
    """
    try:
        listener.listen(BACKLOG)
    except OSError as error:
        raise _unusable(host, port, error, flags) from error


def _unusable(host: str, port: int, error: OSError, flags: tuple[str, str]) -> ConfigError:
    return ConfigError(
        f"{flags[1]} {port} on {host} can't be used ({error.strerror}): "
        f"stop what uses it, or choose another {flags[1]}"
    )
