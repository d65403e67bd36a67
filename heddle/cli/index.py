"""`heddle index PATH... --into DIR`, and `heddle index --into DIR --delete ID`"""

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from heddle.app.index_paths import EmbedProgress, IndexReport, index_paths
from heddle.app.indexing.documents import delete_documents
from heddle.app.priming.chunk_kv_disk import readable_size
from heddle.app.priming.plan import PrimingPlan, PrimingProgress, PrimingReport, PrimingStage
from heddle.app.priming.prime import NEIGHBOURS_DEFAULT
from heddle.app.server import Server
from heddle.cli.arguments import (
    add_chunk_kv,
    add_long_texts,
    add_model,
    chunk_kv_limits,
    model_limits,
)
from heddle.cli.progress import ProgressLines, status
from heddle.core.errors import ConfigError
from heddle.core.tasks import Optimizations
from heddle.corpus.ingestion import IngestProgress
from heddle.engines.embedding.long_texts import LongTexts
from heddle.engines.vector.files.index_kind import SearchMode

SEARCH_MODES: Final = tuple(mode.value for mode in SearchMode)
PRIMING_STEP_S: Final = 2.0  # nobody asks this process anything: few long steps are faster
NICENESS: Final = 10  # priming takes hours: a server on the same machine comes first


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="files or directories")
    parser.add_argument("--into", required=True, type=Path, metavar="DIR", help="the corpus")
    parser.add_argument("--embedder", metavar="DIR-or-name", help="default: the packaged MiniLM")
    parser.add_argument(
        "--prune",
        action="store_true",
        help="delete the documents of files at or under PATH that exist no more",
    )
    parser.add_argument(
        "--delete",
        action="append",
        default=[],
        metavar="ID",
        help="delete the document with this id instead of indexing files; may be repeated; a file "
        "that still has it brings it again when it has changed",
    )
    parser.add_argument(
        "--tenant",
        default="",
        metavar="NAME",
        help="whose document --delete means; default: everybody's",
    )
    parser.add_argument(
        "--fuse",
        action="store_true",
        help="compute every chunk's KV ahead, for --kv-reuse: with --model, on top of that of what "
        "precedes it in its document and of its nearest chunks; what is on disk already is not "
        "computed again",
    )
    parser.add_argument(
        "--top-n",
        type=int,
        default=NEIGHBOURS_DEFAULT,
        metavar="N",
        help="such neighbours of each chunk, in all; default: %(default)s",
    )
    parser.add_argument(
        "--search",
        choices=SEARCH_MODES,
        metavar="|".join(SEARCH_MODES),
        help="how the corpus is searched: auto = exactly below 20,000 vectors, by compressed codes "
        "and exact refinement above; exact = always exactly; graph = by a search graph, minutes to "
        "build for a large corpus; default: as before, at first auto",
    )
    add_long_texts(parser)
    add_model(parser)
    add_chunk_kv(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Index the paths; exit code 1 when a file could not be taken in, the others are.

    With --delete, 1 when a document wasn't there, the others are deleted.
    """
    if bool(options.paths) == bool(options.delete):
        raise ConfigError("name files or directories to index, or documents to --delete ID")
    if options.delete:
        return _delete(options)
    with ProgressLines() as progress:

        def on_documents(state: IngestProgress) -> None:
            progress.update("reading files", state.files_done, state.files_total)

        def on_vectors(state: EmbedProgress) -> None:
            progress.update("embedding chunks", state.chunks_done, state.chunks_total)

        def on_graph(phase: str, done: int, total: int) -> None:
            progress.update(f"building the graph, {phase}", done, total)

        report = index_paths(
            options.paths,
            options.into,
            embedder=options.embedder,
            prune=options.prune,
            search=None if options.search is None else SearchMode(options.search),
            long_texts=LongTexts(options.long_texts),
            on_documents=on_documents,
            on_vectors=on_vectors,
            on_graph=on_graph,
        )
    code = _print_report(report, options.into)
    if options.fuse and report.vectors:
        _print_priming(_prime(options), options.into)
    return code


def _delete(options: argparse.Namespace) -> int:
    missing = delete_documents(options.into, options.delete, tenant=options.tenant)
    print(f"documents deleted: {len(options.delete) - len(missing)}")
    whose = f" of the tenant {options.tenant!r}" if options.tenant else ""
    for one in missing:
        print(f"error: no document {one!r}{whose} in {options.into}", file=sys.stderr)
    return 1 if missing else 0


def _prime(options: argparse.Namespace) -> PrimingReport:
    os.nice(NICENESS)
    with status("loading the models"):
        server = Server(
            options.model,
            options.into,
            embedder=options.embedder,
            optimizations=Optimizations.APPROX,
            background_step_s=PRIMING_STEP_S,
            **chunk_kv_limits(options),
            **model_limits(options),
        )
    with server, ProgressLines() as progress:

        def on_plan(plan: PrimingPlan) -> None:
            progress.say(
                f"chunk KV of {plan.chunks} chunks, {plan.tokens} tokens: "
                f"about {readable_size(plan.disk_bytes)} on disk"
            )

        def on_progress(state: PrimingProgress) -> None:
            name = f"computing {state.stage.value} KV"
            progress.update(name, state.chunks_done, state.chunks_total, _pace(state))

        return server.prime(options.top_n, on_plan=on_plan, on_progress=on_progress)


def _pace(state: PrimingProgress) -> str:
    if state.chunks_per_s is None or state.seconds_left is None:
        return ""
    return f"{state.chunks_per_s:.1f} chunks/s, about {state.seconds_left:.0f} s left"


def _print_priming(report: PrimingReport, directory: Path) -> None:
    counts = ", ".join(
        f"{report.computed[stage]} {stage.value} computed now" for stage in PrimingStage
    )
    print(f"chunk KV of {report.plan.chunks} chunks: {counts}, in {report.seconds:.0f} s")
    if report.too_long:
        print(f"longer than the model's context, without KV: {report.too_long}", file=sys.stderr)
    print(f'use it:  heddle ask {directory} "your question" --kv-reuse fusionrag')


def _print_report(report: IndexReport, directory: Path) -> int:
    documents = report.documents
    print(
        f"documents: {documents.added} new, {documents.changed} changed, "
        f"{documents.unchanged} unchanged, {documents.removed} removed"
    )
    if documents.files_unchanged:
        print(f"files unchanged since the last run, not read: {documents.files_unchanged}")
    if documents.gone:
        print(
            f"files gone, their documents kept: {len(documents.gone)} (such as"
            f" {documents.gone[0]}); --prune deletes them"
        )
    embedded = report.embedded
    print(f"chunks embedded now: {embedded.chunks}; searchable: {report.vectors}")
    if embedded.truncated:
        print(
            f"longer than the embedder takes, cut to its length: {embedded.truncated} chunks; "
            "--long-texts window reads all of them"
        )
    if embedded.windowed:
        print(f"longer than the embedder takes, read in windows: {embedded.windowed} chunks")
    for note in documents.skipped:
        print(f"skipped {note.path}: {note.reason}", file=sys.stderr)
    for note in documents.failures:
        print(f"error: {note.path}: {note.reason}", file=sys.stderr)
    print(f'ask it:  heddle ask {directory} "your question"')
    return 1 if documents.failures else 0
