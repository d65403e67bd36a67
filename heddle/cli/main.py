"""`heddle`: the one entry point. Each command lives in a file of its own."""

import argparse
import importlib
import io
import logging
import os
import sys
from collections.abc import Sequence
from typing import Final

from heddle import __version__
from heddle.cli.command_parser import CommandParser
from heddle.cli.system_note import note_untested_system
from heddle.core.errors import ConfigError, HeddleError, InputError, WorkflowError
from heddle.core.printing.log_lines import log_lines
from heddle.core.printing.printable import printable_text

# name -> (module, one line of help). Modules are imported when their command is used.
COMMANDS: Final = {
    "demo": ("heddle.cli.demo", "index a town's archive and answer 40 questions about it"),
    "index": ("heddle.cli.index", "index text, Markdown, HTML, PDF and JSONL into a directory"),
    "docs": ("heddle.cli.docs", "list, add, remove and synchronise an index's documents"),
    "backup": ("heddle.cli.copies.backup", "copy an index's documents, also while it is served"),
    "restore": ("heddle.cli.copies.restore", "put a backup in place"),
    "search": ("heddle.cli.search", "find passages in an indexed directory"),
    "ask": ("heddle.cli.ask", "answer a question from an indexed directory"),
    "chat": ("heddle.cli.chat", "ask question after question, with follow-ups"),
    "explain": (
        "heddle.cli.explain",
        "show a workflow's graph, what each pass does, and where its time goes",
    ),
    "serve": ("heddle.cli.serve", "serve an indexed directory over HTTP"),
    "agent": ("heddle.cli.serving.agent", "let a server run lanes on this machine"),
    "mcp": ("heddle.cli.serving.mcp", "serve an indexed directory to assistants, as tools of MCP"),
    "keys": ("heddle.cli.keys", "make API keys for a server's clients"),
    "eval": ("heddle.cli.eval", "measure answer quality on questions with known answers"),
    "profile": (
        "heddle.cli.profile",
        "time the embedding lanes, and count the queries within each SLO",
    ),
    "bench": ("heddle.cli.bench", "run a benchmark, or `prepare` its data"),
    "simulate": (
        "heddle.cli.simulate",
        "model a pool of vector-search GPUs, or a server that was measured",
    ),
    "doctor": (
        "heddle.cli.doctor",
        "show what this machine offers, a server's plan, and what is missing",
    ),
}
EXIT_FAILED: Final = 1
EXIT_REFUSED: Final = 2
EXIT_STOPPED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 failed, 2 refused input, 130 stopped."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # `?` for what a terminal's encoding lacks
        note_untested_system()  # first: the command's module may not load there
        options = _parse(given)
        _log_to_stderr(verbose=options.verbose)
        code: int = options.run(options)
        print(end="", flush=True)  # a failed write is reported below, not at exit
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return EXIT_STOPPED
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is left to say.
        _forget_output()
        return 0
    except HeddleError as error:
        print(printable_text(f"error: {error}"), file=sys.stderr)
        refused = isinstance(error, ConfigError | InputError | WorkflowError)
        return EXIT_REFUSED if refused else EXIT_FAILED
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("heddle"):
            raise
        print(
            f"error: Heddle needs the Python package {error.name!r}, which {sys.executable} "
            "doesn't have: install Heddle again, with its dependencies",
            file=sys.stderr,
        )
        return EXIT_FAILED
    except OSError as error:  # a full disk, a folder that can't be written
        print(printable_text(f"error: {error}"), file=sys.stderr)
        try:
            print(end="", flush=True)
        except OSError:
            _forget_output()
        return EXIT_FAILED
    return code


def _parse(given: Sequence[str]) -> argparse.Namespace:
    wanted = given[0] if given else ""
    parser = argparse.ArgumentParser(
        prog="heddle",
        description="A RAG engine: one scheduler for embedding, vector search and generation.",
    )
    parser.add_argument("--version", action="version", version=f"heddle {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, help_line) in COMMANDS.items():
        commands.add_parser(name, help=help_line)
    if not given:
        parser.print_help(sys.stderr)
        sys.exit(EXIT_REFUSED)
    if wanted not in COMMANDS:
        return parser.parse_args(given)  # --help, --version, or an error that names the commands
    return command_parser(wanted).parse(given[1:])


def command_parser(name: str) -> CommandParser:
    """Return the parser of a command."""
    module, help_line = COMMANDS[name]
    parser = CommandParser(prog=f"heddle {name}", description=help_line)
    importlib.import_module(module).add_arguments(parser)
    parser.add_argument("--verbose", action="store_true", help="log each step")
    return parser


def _log_to_stderr(*, verbose: bool) -> None:
    """Show Heddle's own warnings; what libraries have to say only when all is asked for."""
    log_lines("%(levelname)s %(name)s: %(message)s")
    logging.getLogger().setLevel(logging.INFO if verbose else logging.ERROR)
    logging.getLogger("heddle").setLevel(logging.INFO if verbose else logging.WARNING)
    if verbose:  # the words of other servers, which errors never show
        logging.getLogger("heddle.engines.remote").setLevel(logging.DEBUG)


def _forget_output() -> None:
    """Leave nothing in stdout's buffer that the interpreter would try to write at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
