"""The names of models that other servers run: URL[,URL...][#NAME], and openai#NAME."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heddle.core.errors import ConfigError
from heddle.engines.remote.address import Address
from heddle.engines.remote.secret import NO_KEY, Secret

OPENAI: Final = "openai"
OPENAI_URL: Final = "https://api.openai.com/v1"
BASE_URL_VARIABLE: Final = "OPENAI_BASE_URL"
OPENAI_KEY_VARIABLE: Final = "OPENAI_API_KEY"
KEY_VARIABLE: Final = "HEDDLE_REMOTE_KEY"
SERVERS_MAX: Final = 32
NAME_CHARS_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class RemoteName:
    """A model of other servers, as the user named it.

    Args:
        addresses: the servers; each runs the same model.
        model: its name there; empty = the only one that they offer.
        key: what they want to see; it is sent to these addresses only.
    """

    addresses: tuple[Address, ...]
    model: str
    key: Secret = NO_KEY


def is_remote(name: object) -> bool:
    """Whether a model's name means one that another server runs."""
    if not isinstance(name, str) or isinstance(name, Path):
        return False
    return name.startswith(("http://", "https://")) or name.partition("#")[0] == OPENAI


def check_remote_name(name: str | Path) -> None:
    """Refuse the name of a remote model that can't be read; let every other name pass.

    Raises:
        ConfigError: it names no address, or holds a password; the message doesn't show it.
    """
    if is_remote(name):
        read_remote_name(str(name), "a model's name", {})


def read_remote_name(name: str, what: str, environment: Mapping[str, str]) -> RemoteName:
    """Read the name of a remote model.

    The environment's OPENAI_API_KEY goes to OPENAI_BASE_URL, or to OpenAI, and to no other
    address; HEDDLE_REMOTE_KEY goes to addresses that are named by themselves.

    Args:
        name: as the user wrote it.
        what: the flag that names it, for messages.
        environment: where base URL and keys are looked up.

    Raises:
        ConfigError: an address or the name can't be used; no message shows a key.
    """
    where, _, model = name.rpartition("#") if "#" in name else (name, "", "")
    if len(model) > NAME_CHARS_MAX:
        raise ConfigError(f"{what}: the name after # has more than {NAME_CHARS_MAX} characters")
    base = environment.get(BASE_URL_VARIABLE) or OPENAI_URL
    if where == OPENAI or name == OPENAI:
        if not model:
            raise ConfigError(f"{what}: {OPENAI} has many models; name one: {OPENAI}#NAME")
        address = Address.of(base, BASE_URL_VARIABLE)
        return RemoteName((address,), model, _key_in(OPENAI_KEY_VARIABLE, environment))
    urls = [url.strip() for url in where.split(",")]
    if len(urls) > SERVERS_MAX:
        raise ConfigError(f"{what} names {len(urls)} addresses; at most {SERVERS_MAX} can be used")
    if "#" in where:
        raise ConfigError(f"{what}: write #NAME once, behind the last address: all run one model")
    addresses = tuple(dict.fromkeys(Address.of(url, what) for url in urls))
    key = _key_in(KEY_VARIABLE, environment)
    if not key.value and BASE_URL_VARIABLE in environment:
        is_openai = addresses == (Address.of(base, BASE_URL_VARIABLE),)
        key = _key_in(OPENAI_KEY_VARIABLE, environment) if is_openai else NO_KEY
    return RemoteName(addresses, model, key)


def _key_in(variable: str, environment: Mapping[str, str]) -> Secret:
    """Return the key of a variable; called for the one that is sent, as another may be no key."""
    return Secret(environment.get(variable, ""), variable)
