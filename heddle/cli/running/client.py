"""Asks the server that runs on a corpus, over loopback alone."""

import http.client
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from heddle import __version__
from heddle.app.config_sources import Choice
from heddle.app.server_config import ServerConfig
from heddle.cli.running.advert import ServerAdvert, settings_text
from heddle.cli.running.decode import Json, error_of, event_of
from heddle.cli.running.own_key import KEY_VARIABLE, key_problem, own_key
from heddle.cli.running.pinned_connection import PinnedConnection
from heddle.core.errors import ConfigError, EngineError
from heddle.runtime.events import Answer, RequestEvent, RequestFailed

HEALTH_S: Final = 2.0  # a server that is well answers at once
LINE_BYTES_MAX: Final = 64 << 20
HEALTH_BYTES_MAX: Final = 1 << 20
KEY_REFUSED: Final = (http.client.UNAUTHORIZED, http.client.FORBIDDEN)
# Settings that each request may have for itself.
OF_A_REQUEST: Final = (
    "deadline_s",
    "optimizations",
    "kv_reuse",
    "max_tokens",
    "temperature",
    "system",
    "prompt_file",
)
OF_A_SEARCH: Final = ("deadline_s",)
OF_THE_COMMAND: Final = ("index", "reprime")  # the corpus is the same, and one question primes none

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that was seen to run on a corpus a moment ago.

    Args:
        advert: the file that it wrote.
        key: sent with each question; "" = it asks for none.
    """

    advert: ServerAdvert
    key: str = field(default="", repr=False)

    @property
    def url(self) -> str:
        """Its address."""
        host = f"[{self.advert.host}]" if ":" in self.advert.host else self.advert.host
        return f"http{'s' if self.advert.certificate else ''}://{host}:{self.advert.port}"

    def is_well(self) -> bool:
        """Whether the server of the advert answers there, and is ready."""
        return bool(self.health().get("ready"))

    def health(self) -> Json:
        """Return what /health shows; {} where another server answers there, or none does."""
        connection = self._connection(HEALTH_S)
        with closing(connection):
            try:
                connection.request("GET", "/health")
                found = json.loads(connection.getresponse().read(HEALTH_BYTES_MAX))
            except (OSError, ValueError, RecursionError, http.client.HTTPException):
                return {}
        is_own = isinstance(found, dict) and found.get("instance") == self.advert.instance
        return found if is_own else {}

    def ask(self, body: Json) -> Iterator[RequestEvent]:
        """Ask a question and yield its events; leaving the iterator cancels it.

        Raises:
            HeddleError: the server refuses it, or went away.
        """
        with closing(self._connection(None)) as connection:
            reply = self._posted(connection, "/v1/ask", {**body, "stream": True})
            name = ""
            for line in self._lines(reply):
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    event = self._event(name, line.removeprefix("data: "))
                    if event is not None:
                        yield event
                    if isinstance(event, Answer | RequestFailed):
                        return
        raise self._gone()

    def search(self, body: Json) -> Json:
        """Search and return the reply.

        Raises:
            HeddleError: the server refuses it, or went away.
        """
        with closing(self._connection(None)) as connection:
            reply = self._posted(connection, "/v1/search", body)
            try:
                found: Json = json.loads(reply.read(LINE_BYTES_MAX))
            except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
                raise self._gone() from error
            return found

    def _connection(self, timeout_s: float | None) -> http.client.HTTPConnection:
        host, port, certificate = self.advert.host, self.advert.port, self.advert.certificate
        if certificate:
            return PinnedConnection(host, port, certificate, timeout_s)
        return http.client.HTTPConnection(host, port, timeout=timeout_s)

    def _posted(
        self, connection: http.client.HTTPConnection, path: str, body: Json
    ) -> http.client.HTTPResponse:
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        try:
            connection.request("POST", path, json.dumps(body).encode(), headers)
            reply = connection.getresponse()
            found = b"" if reply.status == http.client.OK else reply.read(HEALTH_BYTES_MAX)
        except (OSError, http.client.HTTPException) as error:
            raise self._gone() from error
        if reply.status == http.client.OK:
            return reply
        try:
            said = json.loads(found)
        except (ValueError, RecursionError):
            raise self._gone() from None
        if reply.status in KEY_REFUSED:
            raise ConfigError(
                f"{self.url} refuses the request: {error_of(said)}; change {KEY_VARIABLE} or the "
                "request, or ask with --no-server"
            )
        raise error_of(said)

    def _lines(self, reply: http.client.HTTPResponse) -> Iterator[str]:
        try:
            while line := reply.readline(LINE_BYTES_MAX):
                yield line.decode().rstrip("\n")
        except (OSError, http.client.HTTPException) as error:
            raise self._gone() from error

    def _event(self, name: str, data: str) -> RequestEvent | None:
        try:
            return event_of(name, json.loads(data))
        except (ValueError, RecursionError) as error:
            raise self._gone() from error

    def _gone(self) -> EngineError:
        return EngineError(
            f"{self.url} went away: ask again, or with --no-server",
            engine="the running server",
            request_ids=(),
        )


def find_server(
    config: ServerConfig, chosen: Mapping[str, Choice], of_a_request: Sequence[str] = OF_A_REQUEST
) -> RunningServer | None:
    """Return the server that runs on a command's corpus; None = start one, and the log says why.

    Args:
        config: the command's.
        chosen: the settings that flags, environment or file give, by name.
        of_a_request: names of those that the command's request has for itself.
    """
    if config.place is None:
        return None
    advert = ServerAdvert.read(config.place.work)
    if advert is None:
        return None
    if not advert.is_alive:
        log.info("the server of process %d was killed: one is started", advert.pid)
        return None
    reason, key = _unfit(advert, config, chosen, of_a_request), ""
    if advert.needs_key and not reason:
        key = own_key()
        reason = key_problem(config.place.work, key)
    server = RunningServer(advert, key)
    if not reason and not server.is_well():
        reason = f"none answers at {server.url} for this corpus any more"
    if not reason:
        return server
    log.warning("the running server isn't asked, and one is started: %s", reason)
    return None


def request_settings(config: ServerConfig, chosen: Mapping[str, Choice]) -> dict[str, Any]:
    """Return the chosen settings that go into a request but those of its writing, as fields."""
    texts = settings_text(config)
    found: dict[str, Any] = {}
    for name in ("deadline_s", "optimizations", "kv_reuse"):
        value = getattr(config, name)
        if name in chosen and value is not None:
            found[name] = value if isinstance(value, int | float) else texts[name]
    if "answer_cache" in chosen and config.answer_cache == "off":
        found["answer_cache"] = False
    return found


def _unfit(
    advert: ServerAdvert,
    config: ServerConfig,
    chosen: Mapping[str, Choice],
    of_a_request: Sequence[str],
) -> str:
    if advert.version != __version__:
        return f"it is of version {advert.version}, and this is {__version__}"
    texts = settings_text(config)
    for name, choice in chosen.items():
        if name in of_a_request or name in OF_THE_COMMAND:
            continue
        if name == "answer_cache" and config.answer_cache == "off":
            continue  # a request can do without the cache that a server has
        theirs = advert.settings.get(name)
        if theirs != texts[name]:
            return f"{choice.source} is {texts[name]}, and it has {theirs}"
    return ""
