"""Two machines prove to each other that they have the same secret, and make the keys of a stream.

The one that connects sends a magic word and a nonce. The other answers with its own nonce and an
HMAC-SHA256 of both under the secret; the first checks it and sends its own. Each proof and each key
has a label, so none can pass for another, and both nonces are in all of them, so nothing that was
recorded is of use. Nothing is decoded but these bytes of fixed length, until both have proved
themselves, and they have a few seconds for it.
"""

import hmac
import secrets
import socket
import time
from typing import Final

from heddle.hosts.wire.sealed import SealState

MAGIC: Final = b"heddle\x00\x02"  # the last byte is the version of all that follows
NONCE_BYTES: Final = 32
HANDSHAKE_S_MAX: Final = 5.0
_PROOF_BYTES: Final = 32
_TOO_LONG: Final = "it took too long to prove that it has the secret"
_SERVER, _CLIENT = b"heddle server proof", b"heddle client proof"
_TO_SERVER, _TO_CLIENT = b"heddle key to server", b"heddle key to client"


class OtherSecret(ConnectionError):
    """The other side has proved that it has another secret."""

    def __init__(self) -> None:
        super().__init__("it has another secret")


def greet(sock: socket.socket, secret: bytes, wait_s: float = HANDSHAKE_S_MAX) -> SealState:
    """Prove this side, which has connected, and have the other side prove itself.

    Returns: this end of the sealed stream.
    Raises: OtherSecret; ConnectionError: the other side doesn't answer, or is no agent.
    """
    until_s = time.monotonic() + wait_s
    mine = secrets.token_bytes(NONCE_BYTES)
    _write(sock, MAGIC + mine, until_s)
    theirs = _read(sock, NONCE_BYTES, until_s)
    proof = _read(sock, _PROOF_BYTES, until_s)
    both = mine + theirs
    if not hmac.compare_digest(proof, _mac(secret, _SERVER, both)):
        raise OtherSecret
    _write(sock, _mac(secret, _CLIENT, both), until_s)
    return SealState(_mac(secret, _TO_SERVER, both), _mac(secret, _TO_CLIENT, both))


def answer(sock: socket.socket, secret: bytes, wait_s: float = HANDSHAKE_S_MAX) -> SealState:
    """Have the side that has connected prove itself, and prove this one.

    Returns: this end of the sealed stream.
    Raises: OtherSecret; ConnectionError: the other side doesn't go on, or speaks otherwise.
    """
    until_s = time.monotonic() + wait_s
    if _read(sock, len(MAGIC), until_s) != MAGIC:
        raise ConnectionError("it doesn't speak as a server of this version of Heddle")
    theirs = _read(sock, NONCE_BYTES, until_s)
    mine = secrets.token_bytes(NONCE_BYTES)
    both = theirs + mine
    _write(sock, mine + _mac(secret, _SERVER, both), until_s)
    if not hmac.compare_digest(_read(sock, _PROOF_BYTES, until_s), _mac(secret, _CLIENT, both)):
        raise OtherSecret
    return SealState(_mac(secret, _TO_CLIENT, both), _mac(secret, _TO_SERVER, both))


def _mac(secret: bytes, label: bytes, nonces: bytes) -> bytes:
    return hmac.digest(secret, label + nonces, "sha256")


def _read(sock: socket.socket, size: int, until_s: float) -> bytes:
    data = b""
    while len(data) < size:
        _bound(sock, until_s)
        try:
            part = sock.recv(size - len(data))
        except TimeoutError as error:
            raise ConnectionError(_TOO_LONG) from error
        if not part:
            raise ConnectionError("it hung up while the secret was compared")
        data += part
    return data


def _write(sock: socket.socket, data: bytes, until_s: float) -> None:
    _bound(sock, until_s)
    sock.sendall(data)


def _bound(sock: socket.socket, until_s: float) -> None:
    """Let the socket's next call take what is left of the time."""
    left_s = until_s - time.monotonic()
    if left_s <= 0:
        raise ConnectionError(_TOO_LONG)
    sock.settimeout(left_s)
