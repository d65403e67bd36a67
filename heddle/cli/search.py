"""`heddle search DIR "query"`"""

import argparse
import sys
from dataclasses import asdict
from typing import Final

from heddle.app.server_config import SEARCH, ServerConfig
from heddle.app.setting import fields_of
from heddle.cli.arguments import add_no_server, add_scope, add_topk, scope_options
from heddle.cli.command_parser import CommandParser
from heddle.cli.config_options import (
    add_config,
    add_index,
    check_text,
    choices,
    corpus_place,
    server_config,
)
from heddle.cli.output.search_lines import output_width, search_json, search_lines
from heddle.cli.running.client import OF_A_SEARCH, find_server
from heddle.cli.running.decode import passages_of
from heddle.cli.start_server import start_server
from heddle.core.errors import InputError
from heddle.core.passages import Passage
from heddle.core.search_scope import SearchScope, no_passage_words, where_of
from heddle.corpus.store import CorpusStore
from heddle.workflow.ragraph import DEFAULT_TOPK, TOPK_MAX

# What a search depends on; the command names the index itself.
FIELDS: Final = (
    "embedder",
    "reranker",
    "engine_host",
    "dtype",
    "optimizations",
    "deadline_s",
    *(
        name
        for name, field in fields_of(ServerConfig).items()
        if field.setting.group == SEARCH and name != "index"
    ),
)


def add_arguments(parser: CommandParser) -> None:
    """Declare the command's arguments."""
    add_index(parser)
    parser.add_argument("query", metavar='"query"', help="what to search for")
    add_topk(parser, default=f"{DEFAULT_TOPK}")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--hybrid", action="store_true", help="search by words (BM25) as well as by meaning"
    )
    how.add_argument("--words", action="store_true", help="search by words alone; loads no model")
    parser.add_argument(
        "--rerank", action="store_true", help="have a model read what is found, and rank it"
    )
    add_scope(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_no_server(parser)
    add_config(parser, only=FIELDS)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the passages that a search finds; exit code 1 when there are none."""
    check_text(options, "query")
    if options.words and options.rerank:
        raise InputError("--words loads no model, and --rerank needs one: leave one of them out")
    topk = DEFAULT_TOPK if options.topk is None else options.topk
    if not 1 <= topk <= TOPK_MAX:
        raise InputError(f"topk must be an integer from 1 to {TOPK_MAX}, got {topk}")
    passages, receipt = _found(options, topk)
    if options.json:
        print(search_json(passages, options.query, receipt, by_words=options.words))
    else:
        lines = search_lines(passages, options.query, output_width(), by_words=options.words)
        print("\n".join(lines))
    return 0 if passages else 1


Found = tuple[tuple[Passage, ...], dict[str, object] | None]


def _found(options: argparse.Namespace, topk: int) -> Found:
    try:
        return (_by_words if options.words else _by_meaning)(options, topk)
    except InputError as error:
        reason = no_passage_words(error)
        if not reason:
            raise
        print(reason, file=sys.stderr)
        return (), None


def _by_meaning(options: argparse.Namespace, topk: int) -> Found:
    # Only the extractor is a model that ranks without another one that writes.
    generator = "extract" if options.rerank else None
    config = server_config(
        options, only=("index", *FIELDS), needs=("index",), generator=generator, reprime=False
    )
    chosen = {name: one for name, one in choices(options, ServerConfig).items() if name in FIELDS}
    running = find_server(config, chosen, OF_A_SEARCH) if options.server else None
    if running is not None:
        reply = running.search(
            {
                "query": options.query,
                "topk": topk,
                "hybrid": options.hybrid,
                "rerank": options.rerank,
                **scope_options(options),
                **({"deadline_s": config.deadline_s} if "deadline_s" in chosen else {}),
            }
        )
        print(f"found by the running server at {running.url}", file=sys.stderr)
        return passages_of(reply), reply["receipt"]
    with start_server(config) as server:
        found = server.search(
            options.query,
            topk=topk,
            hybrid=options.hybrid,
            rerank=options.rerank,
            **scope_options(options),
        )
    return found.passages, asdict(found.receipt)


def _by_words(options: argparse.Namespace, topk: int) -> Found:
    config = server_config(options, only=("index",), needs=("index",), generator=None)
    asked = scope_options(options)
    scope = SearchScope(asked["tenant"], where_of(asked["where"]))
    with CorpusStore.open(corpus_place(config)) as store:
        store.allowed(scope)  # refuses a filter that fits nothing, as a search by meaning does
        found = store.by_words(options.query, topk, scope).chunk_ids
        return store.passages(found.tolist()), None
