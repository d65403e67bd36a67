"""`heddle restore FILE|DIR2 DIR [--replace]`"""

import argparse
from pathlib import Path

from heddle.app.priming.chunk_kv_disk import chunk_kv_directory
from heddle.cli.command_parser import CommandParser
from heddle.corpus.sqlite.backup import restore
from heddle.engines.vector.files.manifest import FOLDER
from heddle.engines.vector.shards.part import SHARDS


def add_arguments(parser: CommandParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("backup", type=Path, metavar="FILE|DIR2", help="what `heddle backup` wrote")
    parser.add_argument("corpus", type=Path, metavar="DIR", help="corpus directory")
    parser.add_argument(
        "--replace",
        action="store_true",
        help="replace the corpus that is there, its index and its stored chunk KV",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Put the backup in place and check it."""
    directory = options.corpus
    derived = (directory / FOLDER, directory / SHARDS, chunk_kv_directory(directory))
    check = restore(options.backup, directory, replaces=options.replace, derived=derived)
    print(
        f"{directory}: {check.chunks} chunks, all checked; a server builds the index as it starts"
    )
    return 0
