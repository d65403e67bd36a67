"""Arguments that several commands take, beside a server's settings."""

import argparse
import tempfile
from pathlib import Path
from typing import Any, Final

from heddle.app.requests.documents import checked_documents
from heddle.cli.command_parser import CommandParser
from heddle.core.errors import ConfigError
from heddle.core.tasks import Priority
from heddle.corpus.parsing.guarded_parser import GuardedParser
from heddle.corpus.place import CorpusPlace

DOCUMENT: Final = "--document"
PRIORITIES = tuple(level.name.lower() for level in Priority)


def corpus_place(text: str) -> CorpusPlace:
    """Return the corpus that an argument names.

    Raises:
        ArgumentTypeError: it is no URL of a database; the message doesn't show it.
    """
    try:
        return CorpusPlace.of(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_topk(parser: CommandParser, default: str = "the workflow's") -> None:
    """Declare `--topk`."""
    parser.add_argument(
        "--topk", type=int, metavar="N", help=f"passages of each search; default: {default}"
    )


def add_request(parser: CommandParser) -> None:
    """Declare the options of a request that aren't settings of the server, too."""
    add_topk(parser)
    parser.add_argument(
        "--hybrid",
        action=argparse.BooleanOptionalAction,
        help="search by words (BM25) as well as by meaning",
    )
    add_scope(parser)
    add_documents(parser)
    add_inputs(parser)
    add_drawing(parser)
    parser.rare(
        "--priority",
        choices=PRIORITIES,
        default=Priority.NORMAL.name.lower(),
        help="service class of the request; default: %(default)s",
    )


def add_inputs(parser: CommandParser) -> None:
    """Declare `--input`."""
    parser.rare(
        "--input",
        type=_key_and_value,
        action="append",
        default=[],
        metavar="NAME=TEXT",
        help="value of another input of the workflow; may be repeated",
    )


def add_drawing(parser: CommandParser) -> None:
    """Declare how the answer's tokens are drawn, and where it ends."""
    parser.rare(
        "--top-p",
        type=float,
        metavar="P",
        help="draw from the likeliest tokens that together have this probability; default: 1",
    )
    parser.rare("--seed", type=int, metavar="N", help="equal seeds draw equal tokens; default: 0")
    parser.rare(
        "--stop",
        action="append",
        metavar="TEXT",
        help="text before which the answer ends; may be repeated",
    )


def add_documents(parser: CommandParser) -> None:
    """Declare the documents that come with a request."""
    parser.rare(
        DOCUMENT,
        dest="documents",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="document to answer from, for workflows such as doc_qa_naive; it isn't kept; may be "
        "repeated",
    )


def add_connectors(parser: CommandParser) -> None:
    """Declare the functions by which ready-made workflows reach outside."""
    parser.rare(
        "--connector",
        dest="connectors",
        action="append",
        default=[],
        metavar="NAME=FILE.py:FUNCTION",
        help="your function that workflow search_engine or agent calls, such as "
        "web_search=mine.py:search; may be repeated",
    )


def add_scope(parser: CommandParser) -> None:
    """Declare which documents a search may find."""
    parser.add_argument(
        "--where",
        type=_key_and_value,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="search only documents with this metadata",
    )
    parser.add_argument(
        "--tenant", default="", metavar="NAME", help="search this tenant's documents, too"
    )


def request_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return what `add_request` declares but the inputs, under the names of `Server.submit`."""
    return {
        "topk": options.topk,
        "hybrid": options.hybrid,
        "priority": options.priority,
        "top_p": options.top_p,
        "seed": options.seed,
        "stop": options.stop,
        **document_options(options),
        **scope_options(options),
    }


def document_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the documents that `add_documents` declares, read; nothing where there are none.

    Raises:
        InputError: a file can't be used; the message names it.
    """
    if not options.documents:
        return {}
    with GuardedParser() as parser:
        read = [(path, one) for path in options.documents for one in parser.documents(path)]
    given = [{"title": one.title, "text": one.text} for _, one in read]
    checked_documents(given, DOCUMENT, [f"{DOCUMENT} {path}" for path, _ in read])
    return {"documents": given}


def scope_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return what `add_scope` declares, under the names of `Server.submit`.

    Several values of one key of `where` are alternatives.
    """
    where: dict[str, list[str]] = {}
    for key, value in options.where:
        where.setdefault(key, []).append(value)
    return {"where": where, "tenant": options.tenant}


def add_no_server(parser: CommandParser) -> None:
    """Declare `--no-server`."""
    parser.add_argument(
        "--no-server",
        dest="server",
        action="store_false",
        help="start an own server even where one runs on DIR",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Declare `--json FILE`, refused before a long run rather than after it."""
    parser.add_argument(
        "--json", type=result_file, metavar="FILE", help="write the result to this file"
    )


def _key_and_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} has no key and value; write KEY=VALUE")
    return key, value


def result_file(text: str) -> Path:
    """Return the path of a file that a command writes at its end.

    Raises:
        ArgumentTypeError: it can't be written.
    """
    path = Path(text)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text!r} can't be written: {error.strerror}") from error
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a folder; name a file in it")
    return path
