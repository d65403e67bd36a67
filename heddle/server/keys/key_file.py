"""The file of API keys: TOML with one `[[keys]]` for each key, which holds its hash alone."""

import json
import logging
import math
import os
import re
import stat
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from heddle.app.setting import did_you_mean
from heddle.core.errors import ConfigError
from heddle.server.keys.api_key import ApiKey, KeyScope
from heddle.server.limits import TENANT_CHARS_MAX

FILE_BYTES_MAX: Final = 1 << 20
KEYS_MAX: Final = 1_000  # each request is compared with every one
FILE_MODE: Final = 0o600
FIELDS: Final = (
    "name",
    "sha256",
    "tenant",
    "scopes",
    "requests_per_minute",
    "tokens_per_minute",
)
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")

log = logging.getLogger(__name__)


def read_keys(path: Path) -> tuple[ApiKey, ...]:
    """Return the keys of a file.

    Raises:
        ConfigError: the file can't be read, others may write to it, or an entry can't be used; the
            message names the entry and the field.
    """
    try:
        with path.open("rb") as file:
            _check_owner(path, os.fstat(file.fileno()))
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"--api-key-file {path} can't be read: {error.strerror}") from error
    if len(content) > FILE_BYTES_MAX:
        raise ConfigError(f"{path} is larger than {FILE_BYTES_MAX:,} bytes: split its users")
    keys = keys_of(content, str(path))
    if not keys:
        raise ConfigError(f"{path} has no keys: make one with heddle keys new {path} NAME")
    return keys


def keys_of(content: bytes, source: str) -> tuple[ApiKey, ...]:
    """Return the keys of a file's content; there may be none.

    Raises:
        ConfigError: an entry can't be used; the message begins with the source.
    """
    try:
        found = tomllib.loads(content.decode())
    except ValueError as error:  # no TOML, or no UTF-8
        raise ConfigError(f"{source} is no TOML: {error}") from error
    entries = found.pop("keys", [])
    is_list = isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)
    if found or not is_list:
        raise ConfigError(f"{source} must hold [[keys]] and nothing else")
    if len(entries) > KEYS_MAX:
        raise ConfigError(f"{source} has {len(entries)} keys; at most {KEYS_MAX} are allowed")
    keys = tuple(_key(entry, f"{source}: key {n}") for n, entry in enumerate(entries, 1))
    for kind, values in (("name", [k.name for k in keys]), ("sha256", [k.digest for k in keys])):
        if repeated := [value for value, count in Counter(values).items() if count > 1]:
            entry = next(n for n, value in enumerate(values, 1) if value == repeated[0])
            raise ConfigError(f"{source}: key {entry}: another key has the same {kind}")
    return keys


def entry_text(key: ApiKey) -> str:
    """Return a key's entry as it stands in the file."""
    lines = ["[[keys]]", f'name = "{key.name}"', f'sha256 = "{key.digest.hex()}"']
    if key.tenant is not None:
        lines.append(f"tenant = {json.dumps(key.tenant, ensure_ascii=False)}")
    scopes = ", ".join(f'"{scope.value}"' for scope in KeyScope if scope in key.scopes)
    lines.append(f"scopes = [{scopes}]")
    for name in ("requests_per_minute", "tokens_per_minute"):
        if math.isfinite(getattr(key, name)):
            lines.append(f"{name} = {getattr(key, name):.0f}")
    return "\n".join(lines) + "\n"


def add_key(path: Path, key: ApiKey) -> None:
    """Append a key to a file, which is made if it isn't there, for this user alone.

    Raises:
        ConfigError: the file can't be used, or has a key of this name.
        OSError: it can't be written.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, FILE_MODE), "r+b") as file:
        _check_owner(path, os.fstat(file.fileno()))
        before = file.read(FILE_BYTES_MAX)
        gap = "" if not before else "\n" if before.endswith(b"\n") else "\n\n"
        added = (gap + entry_text(key)).encode()
        keys_of(before + added, str(path))
        file.write(added)


def _check_owner(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(f"{path} is no ordinary file")
    if found.st_uid not in (0, os.geteuid()):
        raise ConfigError(f"{path} belongs to another user, who may add keys: chown it")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(f"others may write {path}, and so add keys: chmod 600 {path}")
    if found.st_mode & (stat.S_IRGRP | stat.S_IROTH):
        log.warning("others may read %s: chmod 600 %s", path, path)


def _key(entry: Mapping[str, Any], where: str) -> ApiKey:
    for field in entry:
        if field not in FIELDS:
            raise ConfigError(f"{where}: {field!r} is no field: {did_you_mean(field, FIELDS)}")
    name = _text(entry, "name", where, _NAME, "1 to 64 letters, digits and . _ -")
    digest = _text(entry, "sha256", where, _SHA256, "64 hexadecimal digits in small letters")
    scopes = _scopes(entry.get("scopes"), where)
    return ApiKey(
        name,
        bytes.fromhex(digest),
        _tenant(entry.get("tenant"), scopes, where),
        scopes,
        _per_minute(entry, "requests_per_minute", where),
        _per_minute(entry, "tokens_per_minute", where),
    )


def _text(
    entry: Mapping[str, Any], field: str, where: str, form: re.Pattern[str], words: str
) -> str:
    value = entry.get(field)
    if not isinstance(value, str) or not form.fullmatch(value):
        raise ConfigError(f"{where}: {field} must be {words}")
    return value


def _scopes(value: object, where: str) -> frozenset[KeyScope]:
    known = {scope.value: scope for scope in KeyScope}
    if not isinstance(value, list) or not value or not all(_is_one(n, known) for n in value):
        raise ConfigError(f"{where}: scopes must be a list of some of {', '.join(known)}")
    return frozenset(known[one] for one in value)


def _is_one(name: object, known: Mapping[str, KeyScope]) -> bool:
    return isinstance(name, str) and name in known


def _tenant(value: object, scopes: frozenset[KeyScope], where: str) -> str | None:
    if value is None:
        if KeyScope.ADMIN not in scopes:
            raise ConfigError(
                f"{where}: tenant is missing: name one, or add the scope admin, with which the key "
                'may name any tenant; tenant = "" is for documents without a tenant'
            )
        return None
    if not isinstance(value, str) or len(value) > TENANT_CHARS_MAX:
        raise ConfigError(
            f"{where}: tenant must be a text of at most {TENANT_CHARS_MAX} characters"
        )
    return value


def _per_minute(entry: Mapping[str, Any], field: str, where: str) -> float:
    value = entry.get(field)
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{where}: {field} must be an integer of at least 1, or be left out")
    return float(value)
