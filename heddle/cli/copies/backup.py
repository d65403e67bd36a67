"""`heddle backup DIR FILE|DIR2`"""

import argparse
from pathlib import Path

from heddle.cli.command_parser import CommandParser
from heddle.corpus.sqlite.backup import back_up, backup_file


def add_arguments(parser: CommandParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("corpus", type=Path, metavar="DIR", help="corpus directory")
    parser.add_argument(
        "target",
        type=Path,
        metavar="FILE|DIR2",
        help="a new file, whose name must end in .sqlite; any other name is a directory, which "
        "becomes a corpus itself",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Copy the corpus and check the copy."""
    check = back_up(options.corpus, options.target)
    print(f"{backup_file(options.target)}: {check.chunks} chunks, all checked")
    return 0
