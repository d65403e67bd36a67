"""The certificate of a server, checked before its models load."""

import hashlib
import re
import ssl
from pathlib import Path
from typing import Final, NoReturn

from heddle.core.errors import ConfigError

_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.S)


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return how a server encrypts its connections: TLS 1.2 or newer, HTTP/1.1.

    Args:
        certificate: PEM file, the server's certificate first, then those that lead to a root.
        key: PEM file of its private key, without a passphrase.

    Raises:
        ConfigError: a file can't be read, is no PEM, or the key isn't the certificate's.
    """
    _read("--tls-cert", certificate)
    _read("--tls-key", key)

    def no_passphrase() -> NoReturn:  # else OpenSSL asks at the terminal
        raise ConfigError(f"--tls-key {key} has a passphrase: write it without one")

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key, password=no_passphrase)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            message = f"--tls-key {key} isn't the key of --tls-cert {certificate}"
        else:
            message = (
                f"--tls-cert {certificate} and --tls-key {key} can't be used ({error.reason}): "
                "they must be PEM files of a certificate and of its private key"
            )
        raise ConfigError(message) from error
    context.set_alpn_protocols(["http/1.1"])
    return context


def certificate_digest(certificate: Path) -> str:
    """Return the SHA-256 of a server's certificate, in hexadecimal.

    Raises:
        ConfigError: the file can't be read, or has no certificate.
    """
    found = _CERTIFICATE.search(_read("--tls-cert", certificate))
    if found is None:
        raise ConfigError(f"--tls-cert {certificate} has no certificate in PEM form")
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(found[0])).hexdigest()


def _read(flag: str, path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise ConfigError(f"{flag} {path} can't be read: {error.strerror}") from error
