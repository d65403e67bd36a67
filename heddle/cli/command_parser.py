"""The parser of one command: `--help` shows the common options, `--help-all` every one."""

import argparse
from collections.abc import Sequence
from copy import copy
from difflib import get_close_matches
from typing import Any

HELP_COLUMN = 26
COMMAND_FLAGS = "command_flags"
"""The attribute of the parsed options that names every flag of their command."""


class CommandParser(argparse.ArgumentParser):
    """A parser that knows which of its options are common, and a short help of each."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - ArgumentParser's own
        super().__init__(**settings, add_help=False, allow_abbrev=False, formatter_class=_Formatter)
        self._rare: list[argparse.Action] = []
        self._short: dict[argparse.Action, str] = {}
        self.add_argument("-h", "--help", action=_ShowCommon, help="show the common options")
        self.add_argument("--help-all", action=_ShowAll, help="show every option")

    def mark(self, action: argparse.Action, *, is_common: bool, short_help: str = "") -> None:
        """Say whether `--help` shows an option, and with which help."""
        if not is_common:
            self._rare.append(action)
        if short_help:
            self._short[action] = short_help

    def rare(self, *names: str, **settings: Any) -> argparse.Action:  # noqa: ANN401
        """Add an option that only `--help-all` shows; arguments as for `add_argument`."""
        action = self.add_argument(*names, **settings)
        self.mark(action, is_common=False)
        return action

    @property
    def flags(self) -> list[str]:
        """Every option by every name that it has."""
        return [flag for action in self._actions for flag in action.option_strings]

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the options; positional arguments may stand on both sides of an option."""
        self.usage = self.usage_line()
        options, unknown = self.parse_known_intermixed_args(arguments)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._hint(unknown)}")
        setattr(options, COMMAND_FLAGS, frozenset(self.flags))
        return options

    def format_common_help(self) -> str:
        """Return the help with the common options, under one heading."""
        common = [action for action in self._actions if action not in self._rare]
        optional = [copy(action) for action in common if action.option_strings]
        for action, shown in zip((a for a in common if a.option_strings), optional, strict=True):
            shown.help = self._short.get(action, action.help)
        formatter = self._get_formatter()
        formatter.add_usage(self.usage or self.usage_line(), (), ())
        formatter.add_text(self.description)
        for heading, actions in (
            ("arguments", [action for action in common if not action.option_strings]),
            ("common options", optional),
        ):
            formatter.start_section(heading)
            formatter.add_arguments(actions)
            formatter.end_section()
        return formatter.format_help()

    def _hint(self, unknown: Sequence[str]) -> str:
        """Return which option a misspelt one was probably meant to be."""
        flags = [word.partition("=")[0] for word in unknown if word.startswith("--")]
        close = [name for flag in flags for name in get_close_matches(flag, self.flags, 1)]
        return f"; did you mean {close[0]}?" if close else ""

    def usage_line(self) -> str:
        """Return the usage in one line: what is required, and that there are options."""
        words = [self.prog]
        for action in self._actions:
            name = action.metavar if isinstance(action.metavar, str) else action.dest
            if action.option_strings:
                words += [f"{action.option_strings[0]} {name}"] if action.required else []
            else:
                words.append({"?": f"[{name}]", "*": f"[{name} ...]"}.get(str(action.nargs), name))
        return " ".join((*words, "[options]")).replace("%", "%%")


class _Formatter(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=HELP_COLUMN)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if isinstance(action, argparse.BooleanOptionalAction):
            return f"--[no-]{action.option_strings[0].removeprefix('--')}"
        return super()._format_action_invocation(action)


class _ShowCommon(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        assert isinstance(parser, CommandParser), "only commands have it"
        print(parser.format_common_help(), end="")
        parser.exit()


class _ShowAll(_ShowCommon):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(parser.format_help(), end="")
        parser.exit()
