"""`heddle`: the one entry point. Each command lives in a file of its own."""

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import Final

from heddle import __version__
from heddle.core.errors import ConfigError, HeddleError, InputError, WorkflowError

# name -> (module, one line of help). Modules are imported when their command is used.
COMMANDS: Final = {
    "demo": ("heddle.cli.demo", "index a town's archive and answer 40 questions about it"),
    "index": ("heddle.cli.index", "index text, Markdown, HTML, PDF and JSONL into a directory"),
    "ask": ("heddle.cli.ask", "answer a question from an indexed directory"),
    "explain": ("heddle.cli.explain", "show a workflow's graph before and after each pass"),
    "serve": ("heddle.cli.serve", "serve an indexed directory over HTTP"),
    "eval": ("heddle.cli.eval", "measure answer quality on questions with known answers"),
    "bench": ("heddle.cli.bench", "run a benchmark, or `prepare` what benchmarks need"),
    "doctor": ("heddle.cli.doctor", "say what this machine offers and what is missing"),
}
EXIT_FAILED: Final = 1
EXIT_REFUSED: Final = 2
EXIT_STOPPED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 failed, 2 refused input, 130 stopped."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options = _parser(given[0] if given else "").parse_args(given)
        logging.basicConfig(
            level=logging.INFO if options.verbose else logging.WARNING,
            format="%(levelname)s %(name)s: %(message)s",
        )
        code: int = options.run(options)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return EXIT_STOPPED
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is left to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except HeddleError as error:
        print(f"error: {error}", file=sys.stderr)
        refused = isinstance(error, ConfigError | InputError | WorkflowError)
        return EXIT_REFUSED if refused else EXIT_FAILED
    return code


def _parser(wanted: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="heddle",
        description="A RAG engine: one scheduler for embedding, vector search and generation.",
    )
    parser.add_argument("--version", action="version", version=f"heddle {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, help_line) in COMMANDS.items():
        command = commands.add_parser(name, help=help_line, description=help_line)
        command.add_argument("--verbose", action="store_true", help="log what is being done")
        if name == wanted:
            importlib.import_module(module).add_arguments(command)
    return parser


if __name__ == "__main__":
    sys.exit(main())
