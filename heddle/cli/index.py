"""`heddle index PATH... --into DIR`"""

import argparse
import sys
from pathlib import Path

from heddle.app.indexing import EmbedProgress, IndexReport, index_paths
from heddle.cli.progress import ProgressLines
from heddle.corpus.ingestion import IngestProgress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files or directories")
    parser.add_argument("--into", required=True, type=Path, metavar="DIR", help="the corpus")
    parser.add_argument("--embedder", metavar="DIR-or-name", help="default: the packaged MiniLM")
    parser.add_argument(
        "--prune",
        action="store_true",
        help="delete the documents of files at or under PATH that exist no more",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Index the paths; exit code 1 when a file could not be taken in, the others are."""
    with ProgressLines() as progress:

        def on_documents(state: IngestProgress) -> None:
            progress.update("reading files", state.files_done, state.files_total)

        def on_vectors(state: EmbedProgress) -> None:
            progress.update("embedding chunks", state.chunks_done, state.chunks_total)

        report = index_paths(
            options.paths,
            options.into,
            embedder=options.embedder,
            prune=options.prune,
            on_documents=on_documents,
            on_vectors=on_vectors,
        )
    return _print_report(report, options.into)


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
    print(f"chunks embedded now: {report.embedded}; searchable: {report.vectors}")
    for note in documents.skipped:
        print(f"skipped {note.path}: {note.reason}", file=sys.stderr)
    for note in documents.failures:
        print(f"error: {note.path}: {note.reason}", file=sys.stderr)
    print(f'ask it:  heddle ask {directory} "your question"')
    return 1 if documents.failures else 0
