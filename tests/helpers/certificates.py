"""A certificate of one's own, made by the program openssl."""

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest


class Certificate(NamedTuple):
    """A certificate and its private key, as PEM files."""

    certificate: Path
    key: Path


def self_signed(folder: Path, name: str = "server") -> Certificate:
    """Make a certificate for localhost and 127.0.0.1; skips the test where openssl is missing."""
    if shutil.which("openssl") is None:
        pytest.skip("the program openssl isn't here, which makes the certificate")
    made = Certificate(folder / f"{name}.pem", folder / f"{name}-key.pem")
    files = ["-keyout", str(made.key), "-out", str(made.certificate)]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run(
        ["openssl", "req", *kind, "-days", "2", *files, *names], check=True, capture_output=True
    )
    return made
