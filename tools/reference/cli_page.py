"""docs/reference/cli.md: every command with its arguments and options."""

import argparse
from collections.abc import Iterator

from heddle.app.setting import fields_of
from heddle.cli.command_parser import CommandParser
from heddle.cli.config_options import CONFIGS
from heddle.cli.main import COMMANDS, command_parser
from tools.reference.tables import table

HEAD = """\
# Commands

`heddle COMMAND --help` shows the common options, `--help-all` every one. Options that are settings,
such as `--model`, are listed here by name; [config.md](config.md) explains them, with their
environment variables and keys in `heddle.toml`.

Exit codes: 0 = done, 1 = failed, 2 = refused input or settings, 3 = `serve` was stopped and had to
cut requests, 4 = `serve` gave a lane up, 130 = stopped with Ctrl-C.
"""


def cli_page() -> Iterator[str]:
    """Yield the lines of the page."""
    yield from HEAD.splitlines()
    yield ""
    yield from table(
        ("command", "task"),
        ((f"[`heddle {name}`](#heddle-{name})", line) for name, (_, line) in COMMANDS.items()),
    )
    for name in COMMANDS:
        yield from _command(command_parser(name))


def _command(parser: CommandParser) -> Iterator[str]:
    settings = {name: one for config in CONFIGS for name, one in fields_of(config).items()}
    actions = [one for one in parser._actions if "--help" not in one.option_strings]
    actions = [one for one in actions if "--help-all" not in one.option_strings]
    own = [one for one in actions if not _is_setting(one, settings)]
    yield f"## {parser.prog}"
    yield ""
    yield f"    {parser.usage_line()}"
    yield ""
    yield f"{(parser.description or '')[0].upper()}{(parser.description or '')[1:]}."
    yield ""
    yield from table(
        ("argument or option", "meaning"), ((_name(one), _help(parser, one)) for one in own)
    )
    flags = [settings[one.dest].flag for one in actions if one not in own]
    if flags:
        yield f"Settings: {', '.join(f'`{flag}`' for flag in flags)}."
        yield ""


def _is_setting(action: argparse.Action, settings: object) -> bool:
    """Whether an option is a flag of a field; a command's own option may have a field's name."""
    is_named = isinstance(settings, dict) and action.dest in settings
    return is_named and bool(action.option_strings) and action.default is argparse.SUPPRESS


def _name(action: argparse.Action) -> str:
    metavar = action.metavar or ("|".join(map(str, action.choices)) if action.choices else "")
    if not action.option_strings:
        return f"`{metavar or action.dest}`"
    if isinstance(action, argparse.BooleanOptionalAction):
        return f"`--[no-]{action.option_strings[0].removeprefix('--')}`"
    value = "" if action.nargs == 0 else f" {metavar or action.dest.upper()}"
    return f"`{action.option_strings[0]}{value}`"


def _help(parser: CommandParser, action: argparse.Action) -> str:
    return str(parser._get_formatter()._expand_help(action))
