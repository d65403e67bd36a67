"""Settings from outside Python: flags, environment variables and heddle.toml, in this order."""

import logging
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from heddle.app.setting import VARIABLE_PREFIX, ConfigField, did_you_mean, value_text
from heddle.core.errors import ConfigError

FILE_NAME: Final = "heddle.toml"
PORT_VARIABLE: Final = f"{VARIABLE_PREFIX}PORT"
# No settings of a server.
OWN_VARIABLES: Final = (
    "HEDDLE_API_KEY",
    "HEDDLE_AUTO_DTYPE",
    "HEDDLE_CACHE",
    "HEDDLE_CI",
    "HEDDLE_DATA",
    "HEDDLE_HELD",
    "HEDDLE_HOME",
    "HEDDLE_REMOTE_KEY",
)
MISSPELT_FROM: Final = 0.8  # similarity from which a variable is taken for a misspelt setting
# Kubernetes sets HEDDLE_PORT so in every pod beside a service that is called heddle.
_SERVICE_LINK: Final = re.compile(r"[a-z]+://\S+:\d+")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Choice:
    """The value of one setting, and its source: a flag, a variable or a file."""

    field: ConfigField
    value: object
    source: str

    def __str__(self) -> str:
        """Say both, as `heddle doctor` shows them."""
        return f"{self.field.key} = {value_text(self.value)} ({self.source})"


def choose(
    fields: Iterable[ConfigField],
    *,
    flags: Mapping[str, object],
    environment: Mapping[str, str],
    file: Path | None = None,
    command_flags: Collection[str] = (),
) -> dict[str, Choice]:
    """Return the settings that were given, by field name; the others have their default.

    Args:
        fields: every setting there is, of all configurations.
        flags: values from the command line by field name, read already.
        environment: all variables of the process.
        file: a file named by the user; None = heddle.toml in the working directory, if it is there.
        command_flags: the command's flags, `--topk` among them; an error about one that is no
            setting, such as topk, says so.

    Raises:
        ConfigError: the file can't be read, a name is unknown, or a value can't be used.
    """
    known = tuple(fields)
    found: dict[str, Choice] = {}
    for choice in (
        *_from_file(known, file, command_flags),
        *_from_environment(known, environment),
        *(Choice(one, flags[one.name], one.flag) for one in known if one.name in flags),
    ):
        found[choice.field.name] = choice
    return found


def _from_environment(
    fields: tuple[ConfigField, ...], environment: Mapping[str, str]
) -> Iterator[Choice]:
    by_variable = {one.variable: one for one in fields}
    for variable in sorted(environment):
        if variable == PORT_VARIABLE and _SERVICE_LINK.fullmatch(environment[variable]):
            log.info("%s is the address of a service, of Kubernetes: no setting", variable)
        elif variable in by_variable:
            yield _choice(by_variable[variable], environment[variable], variable)
        elif variable.startswith(VARIABLE_PREFIX) and variable not in OWN_VARIABLES:
            _check_spelling(variable, by_variable)


def _check_spelling(variable: str, known: Iterable[str]) -> None:
    """Refuse a variable that looks like a misspelt setting; others are other programs' own."""
    by_rest = {name.removeprefix(VARIABLE_PREFIX): name for name in known}
    rest = variable.removeprefix(VARIABLE_PREFIX)
    if close := get_close_matches(rest, list(by_rest), 1, MISSPELT_FROM):
        raise ConfigError(f"{variable} is no setting: did you mean {by_rest[close[0]]!r}?")


def _from_file(
    fields: tuple[ConfigField, ...], file: Path | None, command_flags: Collection[str]
) -> Iterator[Choice]:
    path = Path(FILE_NAME) if file is None else file
    by_key = {one.key: one for one in fields}
    for key, value in _read(path, is_needed=file is not None).items():
        if key not in by_key:
            fix = _fix_of_key(key, value, by_key, command_flags)
            raise ConfigError(f"{path}: {key!r} is no setting: {fix}")
        yield _choice(by_key[key], value, str(path))


def _fix_of_key(
    key: str, value: object, by_key: Mapping[str, ConfigField], command_flags: Collection[str]
) -> str:
    """Return what to write in the place of a key that is no setting."""
    if isinstance(value, dict):
        return f"the file has no tables; write settings without [{key}]"
    flag = f"--{key.replace('_', '-')}"
    return f"give {flag} with the command" if flag in command_flags else did_you_mean(key, by_key)


def _read(path: Path, *, is_needed: bool) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if is_needed:
            raise ConfigError(f"the file {path} isn't there: name another one") from None
        return {}
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from error
    except ValueError as error:  # no TOML, or no UTF-8
        raise ConfigError(f"{path} is no TOML: {error}") from error


def _choice(field: ConfigField, value: object, source: str) -> Choice:
    try:
        return Choice(field, field.read(value, in_python=False), source)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error
