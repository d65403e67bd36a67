"""The flags of a configuration's fields, and the configuration that they, with others, choose."""

import argparse
import logging
import os
import sys
from collections.abc import Callable, Collection, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final

from heddle.app.config_sources import FILE_NAME, Choice, choose
from heddle.app.remote.auto_model import without_auto
from heddle.app.server_config import ServerConfig
from heddle.app.setting import ConfigField, fields_of
from heddle.app.value_kind import Names
from heddle.cli.command_parser import COMMAND_FLAGS, CommandParser
from heddle.core.errors import ConfigError, InputError
from heddle.core.printing.log_lines import LogFormat, set_log_format
from heddle.corpus.place import CorpusPlace
from heddle.corpus.sqlite.database import FILE_NAME as CORPUS_FILE
from heddle.server.http_config import HttpConfig
from heddle.server.operation.operation_config import OperationConfig

CONFIGS: Final = (ServerConfig, HttpConfig, OperationConfig)
INDEX: Final = "index"
DEFAULT: Final = "default"  # the source of a value that is given nowhere
# The settings that commands which only index or measure have flags for.
MODEL_FIELDS: Final = ("generator", "context_tokens_max", "kv_cache_bytes")
REUSE_STORE_FIELDS: Final = ("kv_reuse_memory_bytes", "kv_reuse_encoding", "kv_reuse_disk_bytes")
log = logging.getLogger(__name__)


def add_config(
    parser: CommandParser,
    config: type = ServerConfig,
    *,
    only: Collection[str] | None = None,
    without: Collection[str] = (INDEX,),
) -> None:
    """Declare the flags of a configuration, under its headings, and `--config`.

    Args:
        parser: the command's.
        config: a dataclass of `setting`s.
        only: names of fields; None = all of them.
        without: names of fields that the command has no flag for, or declares by itself.
    """
    groups: dict[str, Any] = {}
    for name, field in fields_of(config).items():
        if name in without or (only is not None and name not in only):
            continue
        heading = field.setting.group
        group = groups.setdefault(heading, parser.add_argument_group(heading))
        _add_flag(parser, group, field)
    if not any("--config" in action.option_strings for action in parser._actions):
        parser.add_argument(
            "--config",
            type=Path,
            metavar="FILE",
            help=f"settings file; default: {FILE_NAME}, if it is here",
        )


def add_index(parser: CommandParser) -> None:
    """Declare the corpus as a positional argument, which the environment or a file can name."""
    parser.add_argument(
        INDEX,
        nargs="?",
        default=argparse.SUPPRESS,
        metavar="DIR",
        help="corpus directory or URL; default: $HEDDLE_INDEX",
    )


def check_text(options: argparse.Namespace, name: str) -> None:
    """Refuse a command without a text to ask or search for, before anything is loaded.

    Of two positional arguments the first may be left out, so the corpus was taken as the text.

    Args:
        options: what the command's parser returned.
        name: name of the text, such as `question`.

    Raises:
        InputError: the text is empty, or it is a corpus's directory, and no corpus is named on the
            command line.
    """
    text: str = getattr(options, name)
    if not text.strip():
        raise InputError(f"{name} is empty: ask something")
    # A long question is no name of a file, for which Path.is_file would raise.
    is_corpus = os.path.isfile(os.path.join(text, CORPUS_FILE))
    if not hasattr(options, INDEX) and is_corpus:
        raise InputError(f'{name} is missing: write it behind the corpus: {text} "your {name}"')


def corpus_place(config: ServerConfig) -> CorpusPlace:
    """Return where the corpus of a command is that needs one."""
    assert config.place is not None, "the command needs a corpus"
    return config.place


def server_config(
    options: argparse.Namespace,
    *,
    only: Collection[str] | None = None,
    needs: Collection[str] = (),
    defaults: Mapping[str, object] = {},
    **fixed: object,
) -> ServerConfig:
    """Return the configuration of a command's server: flag, else environment, else file.

    Args:
        options: what the command's parser returned.
        only: names of fields that count; the others have their defaults.
        needs: names of fields that must be given.
        defaults: values, by name, that the command has in the place of the fields' own defaults.
        fixed: values, by name, that the command itself decides.

    Raises:
        ConfigError: a setting can't be used, or one that is needed is missing.
    """
    chosen = choices(options, ServerConfig)
    for choice in chosen.values():
        log.info("%s", choice)
    for name in needs:
        if name not in chosen and name not in fixed:
            field = fields_of(ServerConfig)[name]
            raise ConfigError(
                f"{name} is missing: name the {field.setting.help}, on the command line, as "
                f"{field.variable}, or as {field.key} in {FILE_NAME}"
            )
    given = {name: choice.value for name, choice in chosen.items() if only is None or name in only}
    config, words = without_auto(_server_config({**defaults, **given, **fixed}))
    if words:
        print(f"--model auto {words}", file=sys.stderr)
    return config


def _server_config(given: Mapping[str, object]) -> ServerConfig:
    default = fields_of(ServerConfig)["generator"].default
    settings: dict[str, Any] = {"generator": default, INDEX: None, **given}
    return ServerConfig.of(settings.pop("generator"), settings.pop(INDEX), settings)


def all_choices(options: argparse.Namespace) -> tuple[Choice, ...]:
    """Return every setting of a command that serves, with its source; see `server_config`.

    Raises:
        ConfigError: a setting can't be used.
    """
    found: list[Choice] = []
    for config in CONFIGS:
        chosen = choices(options, config)
        for name, field in fields_of(config).items():
            found.append(chosen.get(name, Choice(field, field.default, DEFAULT)))
    given = choices(options, ServerConfig)
    _server_config({name: choice.value for name, choice in given.items()})  # together, too
    return tuple(found)


def http_config(options: argparse.Namespace) -> HttpConfig:
    """Return the configuration of the HTTP front; see `server_config`."""
    chosen = choices(options, HttpConfig)
    for choice in chosen.values():
        log.info("%s", choice)
    return HttpConfig.of({name: choice.value for name, choice in chosen.items()})


def operation_config(options: argparse.Namespace) -> OperationConfig:
    """Return how a server reports on itself; see `server_config`. The log follows it from here on.

    Mutates: the handlers of the log.
    """
    chosen = choices(options, OperationConfig)
    config = OperationConfig.of({name: choice.value for name, choice in chosen.items()})
    set_log_format(LogFormat(config.log_format))
    return config


def choices(options: argparse.Namespace, config: type) -> Mapping[str, Choice]:
    """Return the settings of a configuration that flags, environment or file give, by name."""
    found = choose(
        chain.from_iterable(fields_of(one).values() for one in CONFIGS),
        flags=vars(options),
        environment=os.environ,
        file=getattr(options, "config", None),
        command_flags=getattr(options, COMMAND_FLAGS, ()),
    )
    return {name: choice for name, choice in found.items() if name in fields_of(config)}


def _add_flag(parser: CommandParser, group: Any, field: ConfigField) -> None:  # noqa: ANN401
    about = field.setting
    default = f"default: {field.default_text}"
    # A percent sign is argparse's own.
    whole = "; ".join(filter(None, (about.help, about.details, default))).replace("%", "%%")
    named: dict[str, Any] = {"dest": field.name, "default": argparse.SUPPRESS, "help": whole}
    if isinstance(field.default, bool):
        named["action"] = argparse.BooleanOptionalAction
    else:
        named["type"] = _reader(field)
        named["metavar"] = about.form or "|".join(field.choices)
        if isinstance(field.kind, Names):
            named["action"] = _AddNames
    action = group.add_argument(field.flag, **named)
    short = about.help if isinstance(field.default, bool) else f"{about.help}; {default}"
    parser.mark(action, is_common=about.is_common, short_help=short.replace("%", "%%"))


class _AddNames(argparse.Action):
    """Adds the names of a flag to those of the same flag before it."""

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        options: argparse.Namespace,
        names: Any,  # noqa: ANN401 - argparse's own
        _flag: str | None = None,
    ) -> None:
        setattr(options, self.dest, getattr(options, self.dest, frozenset()) | names)


def _reader(field: ConfigField) -> Callable[[str], object]:
    def read(text: str) -> object:
        try:
            return field.read(text, in_python=False)
        except ConfigError as error:  # argparse shows its own words for any other error
            raise argparse.ArgumentTypeError(str(error)) from None

    return read
