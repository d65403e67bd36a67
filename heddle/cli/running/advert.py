"""`server.json` in a corpus directory: which server answers from it now."""

import json
import logging
import os
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Self

from heddle import __version__
from heddle.app.models.model_names import default_workflow
from heddle.app.server_config import ServerConfig
from heddle.app.setting import fields_of, value_text

FILE_NAME: Final = "server.json"
BYTES_MAX: Final = 64 << 10
PORT_MAX: Final = 65_535
ANY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServerAdvert:
    """A server that runs on a corpus.

    Args:
        pid: its process.
        host: a loopback address.
        port: its port there.
        instance: what its /health must name, or another server has the port by now.
        version: of Heddle.
        settings: each field of its ServerConfig, as text.
        needs_key: whether it serves only clients with a key.
        certificate: SHA-256 of its certificate, in hexadecimal; "" = it speaks plain HTTP.
    """

    pid: int
    host: str
    port: int
    instance: str
    version: str
    settings: Mapping[str, str]
    needs_key: bool = False
    certificate: str = ""

    @classmethod
    def of(
        cls,
        config: ServerConfig,
        host: str,
        port: int,
        *,
        needs_key: bool = False,
        certificate: str = "",
    ) -> Self | None:
        """Return the advert of a server, None where loopback doesn't reach it."""
        address = ANY_ADDRESS.get(host, host)
        if not ip_address(address).is_loopback:
            return None
        instance, settings = secrets.token_hex(16), settings_text(config)
        me = (os.getpid(), address, port, instance, __version__, settings)
        return cls(*me, needs_key=needs_key, certificate=certificate)

    @classmethod
    def read(cls, directory: Path) -> Self | None:
        """Return what a corpus directory's file says; None where there is none of use."""
        try:
            with (directory / FILE_NAME).open("rb") as file:
                found = json.loads(file.read(BYTES_MAX))
            advert = cls(**found)
            is_loopback = ip_address(advert.host).is_loopback
        except (OSError, ValueError, TypeError, RecursionError):
            return None
        kinds = (
            ("pid", int),
            ("host", str),
            ("port", int),
            ("instance", str),
            ("version", str),
            ("needs_key", bool),
            ("certificate", str),
        )
        is_whole = all(isinstance(getattr(advert, name), kind) for name, kind in kinds)
        is_whole = is_whole and isinstance(advert.settings, dict) and bool(advert.instance)
        is_whole = is_whole and 0 < advert.port <= PORT_MAX
        return advert if is_whole and is_loopback else None

    @property
    def is_alive(self) -> bool:
        """Whether its process is there."""
        try:
            os.kill(self.pid, 0)
        except PermissionError:
            return True  # another user's
        except (OSError, OverflowError):
            return False
        return self.pid > 0

    @property
    def default_workflow(self) -> str:
        """The ready-made workflow of its requests that name none."""
        generator = self.settings.get("generator")
        return default_workflow(None if generator == value_text(None) else generator)

    def is_beside(self, other: "ServerAdvert") -> bool:
        """Whether it runs beside another, which has an address of its own."""
        return (self.host, self.port) != (other.host, other.port) and self.is_alive


def settings_text(config: ServerConfig) -> dict[str, str]:
    """Return every field of a configuration as text, by name."""
    return {name: value_text(getattr(config, name)) for name in fields_of(ServerConfig)}


@contextmanager
def advertised(directory: Path, advert: ServerAdvert | None) -> Iterator[None]:
    """Write the file, and remove it at the end, unless another server has written it since.

    Where it named a server that still runs at the end, it names that one again. A directory that
    can't be written costs no answer: commands then start servers of their own.
    """
    path = directory / FILE_NAME
    earlier = None if advert is None else ServerAdvert.read(directory)
    if advert is not None:
        if earlier is not None and earlier.is_beside(advert):
            log.warning(
                "another server runs on this corpus at %s, port %d: commands ask this one until "
                "it ends",
                earlier.host,
                earlier.port,
            )
        try:
            _write(path, advert)
        except OSError as error:
            log.info("%s can't be written: %s", path, error)
    try:
        yield
    finally:
        now = ServerAdvert.read(directory)
        if advert is not None and now is not None and now.instance == advert.instance:
            with suppress(OSError):
                if earlier is not None and earlier.is_beside(advert):
                    _write(path, earlier)
                else:
                    path.unlink()


def _write(path: Path, advert: ServerAdvert) -> None:
    """Write beside and rename; only this user may read it."""
    written: Path | None = None
    try:
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, encoding="utf-8", delete=False
        ) as file:
            written = Path(file.name)
            json.dump(asdict(advert), file)
        written.replace(path)
    except OSError:  # the disk is full, mostly
        if written is not None:
            written.unlink(missing_ok=True)
        raise
