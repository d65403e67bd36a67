"""`heddle keys new FILE NAME --tenant NAME --scopes SCOPES`"""

import argparse
import math
import sys
from pathlib import Path
from typing import Final

from heddle.cli.command_parser import CommandParser
from heddle.core.errors import InputError
from heddle.server.keys.api_key import ApiKey, KeyScope, digest_of, new_key
from heddle.server.keys.key_file import add_key

ACTIONS: Final = ("new",)
SCOPES: Final = tuple(scope.value for scope in KeyScope)


def add_arguments(parser: CommandParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "action",
        choices=ACTIONS,
        metavar="new",
        help="new = make a key and print it",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="file of keys, for --api-key-file")
    parser.add_argument("name", metavar="NAME", help="name of the key in the log")
    parser.add_argument(
        "--tenant",
        metavar="NAME",
        help='tenant of all its requests; "" = documents without a tenant; default: each request '
        "names one, which needs the scope admin",
    )
    parser.add_argument(
        "--scopes",
        type=_scopes,
        default=frozenset({KeyScope.ASK}),
        metavar="SCOPES",
        help=f"some of {','.join(SCOPES)}, with commas between them; default: ask",
    )
    for what in ("requests", "tokens"):
        parser.add_argument(
            f"--{what}-per-minute",
            type=_count,
            default=math.inf,
            metavar="N",
            help=f"most {what} in a minute; default: no limit",
        )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Make a key, print it to stdout, and append its entry to the file."""
    if options.tenant is None and KeyScope.ADMIN not in options.scopes:
        raise InputError(
            "name a --tenant, or give the scope admin, with which the key may name any tenant; "
            '--tenant "" is for documents without a tenant'
        )
    key = new_key()
    entry = ApiKey(
        options.name,
        digest_of(key),
        options.tenant,
        options.scopes,
        options.requests_per_minute,
        options.tokens_per_minute,
    )
    add_key(options.file, entry)
    print(key)
    print(
        f"this is the only time that the key is shown; {options.file} has its hash; a server that "
        "runs must be started again to know it",
        file=sys.stderr,
    )
    return 0


def _scopes(text: str) -> frozenset[KeyScope]:
    names = text.split(",")
    if unknown := [name for name in names if name not in SCOPES]:
        known = ", ".join(SCOPES)
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is no scope; there are {known}")
    return frozenset(KeyScope(name) for name in names)


def _count(text: str) -> float:
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be an integer of at least 1")
    return float(text)
