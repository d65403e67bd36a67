"""HTTPS to a server with one certain certificate, which no authority has to sign."""

import hmac
import http.client
import ssl
from hashlib import sha256


class PinnedConnection(http.client.HTTPSConnection):
    """A connection to the server that has a certificate, and to no other.

    A server on loopback is named by an address, for which no certificate is signed; the one that it
    named in its own file stands for it.

    Args:
        host, port: where it listens.
        certificate: SHA-256 of the certificate, in hexadecimal.
        timeout_s: for each read and write; None = none.
    """

    def __init__(self, host: str, port: int, certificate: str, timeout_s: float | None) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # `connect` does it
        super().__init__(host, port, timeout=timeout_s, context=context)
        self._certificate = certificate

    def connect(self) -> None:
        """Connect; nothing is sent to a server with another certificate.

        Raises:
            OSError: none answers there, or another one.
        """
        super().connect()
        found = self.sock.getpeercert(binary_form=True) or b""
        if not hmac.compare_digest(sha256(found).hexdigest(), self._certificate):
            self.close()
            raise ssl.SSLError("the server has another certificate than it said")
