"""The settings of the HTTP front, beside those of the server behind it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from heddle.app.setting import fields_of, setting
from heddle.server.limits import REQUESTS_MAX

PORT_MAX: Final = 65535
HTTP: Final = "HTTP"
GRACE_S_MAX: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """Where the HTTP front listens, whom it serves, and which changes clients may make.

    Raises:
        ConfigError: a value can't be used; the message names the field and the accepted values.
    """

    host: str = setting(
        "127.0.0.1",
        "address to listen on",
        details="beyond this machine it needs api_key_file, or insecure",
        group=HTTP,
        form="ADDRESS",
        is_common=True,
    )
    port: int = setting(
        8321,
        "port to listen on; 0 = any free one",
        group=HTTP,
        form="N",
        low=0,
        high=PORT_MAX,
        is_common=True,
    )
    allowed_hosts: frozenset[str] = setting(
        frozenset(),
        "names that clients call the server by, beside its addresses and localhost",
        details="others are refused, so that no web page asks it by a name of its own; "
        "* allows all; the flag may be repeated",
        group=HTTP,
        form="NAME",
    )
    api_key_file: str | Path | None = setting(
        None,
        "keys of the clients that are served",
        details="made by `heddle keys new`; none = every client that reaches the port is served",
        group=HTTP,
        form="FILE",
        none="none",
        is_common=True,
    )
    insecure: bool = setting(
        False,
        "listen beyond this machine without keys",
        details="every client that reaches the port may then ask for every tenant's documents",
        group=HTTP,
    )
    tls_cert: str | Path | None = setting(
        None,
        "certificate to serve HTTPS with",
        details="a PEM file, the server's certificate first; needs tls_key; none = HTTP",
        group=HTTP,
        form="FILE",
        none="none",
    )
    tls_key: str | Path | None = setting(
        None,
        "private key of the certificate",
        details="a PEM file without a passphrase",
        group=HTTP,
        form="FILE",
        none="none",
    )
    allow_changes: bool = setting(
        False,
        "let clients put and delete documents",
        details="POST and DELETE /v1/documents, and files and vector stores; for clients whose key "
        "has the scope write, without keys for every client",
        group=HTTP,
        is_common=True,
    )
    workflows: frozenset[str] = setting(
        frozenset(),
        "own RAGraphs to offer as well",
        details="the flag may be repeated",
        group=HTTP,
        form="FILE.py:NAME",
        flag="workflow",
        is_common=True,
    )
    inline_sources: bool = setting(
        False,
        "end answers by OpenAI's API with their sources in Markdown",
        details="for chat interfaces, which show the text alone; a request says otherwise with "
        "heddle.inline_sources",
        group=HTTP,
    )
    connectors: frozenset[str] = setting(
        frozenset(),
        "own functions that workflows search_engine and agent call",
        details="such as web_search=mine.py:search; the flag may be repeated",
        group=HTTP,
        form="NAME=FILE.py:FUNCTION",
        flag="connector",
    )
    limit_concurrency: int = setting(
        REQUESTS_MAX,
        "HTTP requests in progress at once",
        details="more are refused with status 503",
        group=HTTP,
        form="N",
        low=1,
    )

    grace_s: float = setting(
        30.0,
        "time that requests under way get when the server is stopped",
        details="then they are cut and told so, and the exit code is 3",
        group=HTTP,
        unit="s",
        form="SECONDS",
        low=0,
        high=GRACE_S_MAX,
        flag="grace",
    )

    def __post_init__(self) -> None:
        for name, field in fields_of(HttpConfig).items():
            field.check(getattr(self, name))

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Return the configuration of these settings, where texts stand for values as well."""
        known = fields_of(HttpConfig)
        read: dict[str, Any] = {name: known[name].read(value) for name, value in settings.items()}
        return cls(**read)
