"""A server's certificate: what is refused, and how."""

import hashlib
import ssl
import subprocess
from pathlib import Path

import pytest

from heddle.core.errors import ConfigError
from heddle.server.tls import certificate_digest, tls_context
from tests.helpers.certificates import Certificate, self_signed


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return self_signed(tmp_path_factory.mktemp("tls"))


def test_old_versions_of_tls_are_not_spoken(made: Certificate):
    context = tls_context(*made)
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert not context.check_hostname, "of clients"


def test_the_digest_is_of_the_first_certificate(made: Certificate, tmp_path: Path):
    der = ssl.PEM_cert_to_DER_cert(made.certificate.read_text())
    wanted = hashlib.sha256(der).hexdigest()
    assert certificate_digest(made.certificate) == wanted
    other = self_signed(tmp_path, "other").certificate
    chain = tmp_path / "chain.pem"
    chain.write_text(f"subject=me\n{made.certificate.read_text()}{other.read_text()}")
    assert certificate_digest(chain) == wanted
    with pytest.raises(ConfigError, match="has no certificate"):
        certificate_digest(made.key)


def test_files_that_are_missing(made: Certificate, tmp_path: Path):
    missing = tmp_path / "none.pem"
    with pytest.raises(ConfigError, match=r"--tls-cert .*none\.pem can't be read: No such file"):
        tls_context(missing, made.key)
    with pytest.raises(ConfigError, match=r"--tls-key .*none\.pem can't be read: No such file"):
        tls_context(made.certificate, missing)


def test_files_that_are_no_pem(made: Certificate, tmp_path: Path):
    junk = tmp_path / "junk.pem"
    junk.write_bytes(b"\xff\x00 none")
    for pair in ((junk, made.key), (made.certificate, junk), (made.key, made.certificate)):
        with pytest.raises(ConfigError, match="they must be PEM files of a certificate and of its"):
            tls_context(*pair)


def test_the_key_of_another_certificate(made: Certificate, tmp_path: Path):
    other = self_signed(tmp_path, "other")
    with pytest.raises(ConfigError, match=r"other-key\.pem isn't the key of --tls-cert"):
        tls_context(made.certificate, other.key)


def test_a_key_with_a_passphrase_is_refused_and_not_asked_for(made: Certificate, tmp_path: Path):
    locked = tmp_path / "locked.pem"
    command = ["openssl", "pkey", "-in", made.key, "-aes256", "-passout", "pass:word", "-out"]
    subprocess.run([*command, locked], check=True, capture_output=True)
    with pytest.raises(ConfigError, match="has a passphrase: write it without one"):
        tls_context(made.certificate, locked)
