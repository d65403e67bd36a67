"""`heddle index PATH... --into DIR|URL`, and `heddle index --into DIR|URL --delete ID`"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from heddle.app.index_paths import (
    EmbedProgress,
    IndexReport,
    check_inside,
    index_paths,
    refresh_inside,
)
from heddle.app.indexing.documents import delete_documents
from heddle.app.models.remote_name import is_remote, read_remote_name
from heddle.app.priming.chunk_kv_disk import readable_size
from heddle.app.priming.plan import PrimingPlan, PrimingProgress, PrimingReport, PrimingStage
from heddle.app.priming.prime import NEIGHBOURS_DEFAULT
from heddle.app.server_config import ServerConfig
from heddle.cli.arguments import corpus_place
from heddle.cli.command_parser import CommandParser
from heddle.cli.config_options import MODEL_FIELDS, REUSE_STORE_FIELDS, add_config, server_config
from heddle.cli.progress import ProgressLines
from heddle.cli.start_server import start_server
from heddle.core.errors import ConfigError
from heddle.core.kv_reuse import KvReuse, PrimedWith, ReusePolicy
from heddle.core.printing.printable import printable_line
from heddle.core.tasks import Optimizations
from heddle.corpus.file_discovery import FileNote
from heddle.corpus.ingestion import IngestProgress
from heddle.corpus.place import CorpusPlace
from heddle.corpus.store import CorpusStore
from heddle.corpus.vector_index import OnRows, VectorIndexKind
from heddle.engines.vector.files.index_kind import SearchMode

NO_PGVECTOR: Final = "none"
INDEX_KINDS: Final = tuple(mode.value for mode in SearchMode)
EMBEDDING_FIELDS: Final = ("embedder", "long_texts")
PRIMING_FIELDS: Final = (*MODEL_FIELDS, *REUSE_STORE_FIELDS)
PRIMING_STEP_S: Final = 2.0  # this process answers no requests: few long steps are faster
OF_FILES: Final = ("prune", "chunk_tokens", "overlap", "index_kind", "pgvector", "prime")
NAMED_MAX: Final = 3  # files in the line of one reason
NICENESS: Final = 10  # priming takes hours: a server on the same machine comes first


def add_arguments(parser: CommandParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="files or directories")
    parser.add_argument(
        "--into",
        required=True,
        type=corpus_place,
        metavar="DIR|URL",
        help="corpus to make or update: a directory, or postgresql://USER@HOST/DATABASE",
    )
    parser.add_argument(
        "--prune",
        action="store_true",
        help="delete documents of files at or under PATH that no longer exist",
    )
    parser.add_argument(
        "--delete",
        action="append",
        default=[],
        metavar="ID",
        help="delete this document instead of indexing files; may be repeated",
    )
    parser.add_argument(
        "--tenant", default="", metavar="NAME", help="tenant of the documents that --delete names"
    )
    parser.add_argument(
        "--chunk-tokens",
        type=int,
        metavar="N",
        help="most tokens of a chunk with its title, as the embedder counts them; default: as "
        "before, at first 200 or the embedder's length; files cut otherwise are read anew",
    )
    parser.add_argument(
        "--overlap",
        type=int,
        metavar="N",
        help="how many tokens of the chunk before it each chunk begins with; default: as before, "
        "at first 0",
    )
    parser.add_argument(
        "--follow-links",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="index what links lead to outside of PATH, too; default: as before, at first not",
    )
    parser.add_argument(
        "--index-kind",
        choices=INDEX_KINDS,
        metavar="|".join(INDEX_KINDS),
        help="index to build: auto = exact below 20,000 vectors, above that compressed codes with "
        "exact refinement; exact = exact at any size; graph = a search graph, which takes minutes "
        "to build for a large corpus; default: the kind it has, at first auto",
    )
    parser.add_argument(
        "--pgvector",
        choices=(*(kind.value for kind in VectorIndexKind), NO_PGVECTOR),
        metavar="|".join((*(kind.value for kind in VectorIndexKind), NO_PGVECTOR)),
        help="have PostgreSQL make an index of its own, for --search-in postgres, anew where it "
        "has one; needs no PATH; half = as float16; none = remove it; default: as before, at first "
        "none",
    )
    parser.add_argument(
        "--prime",
        nargs="?",
        choices=tuple(one.value for one in PrimedWith),
        const=PrimedWith.PRECEDING.value,
        metavar="|".join(one.value for one in PrimedWith),
        help="precompute every chunk's KV with --model, so that --kv-reuse can use it: after what "
        "precedes the chunk in its document and the chunks nearest to it (preceding, the default), "
        "or after the nearest alone (nearest, FusionRAG's own form; --kv-reuse with the option "
        "nearest uses it); chunks already on disk are skipped",
    )
    parser.add_argument(
        "--prime-neighbours",
        type=int,
        default=NEIGHBOURS_DEFAULT,
        metavar="N",
        help="how many neighbouring chunks each chunk's KV is computed after; default: %(default)s",
    )
    add_config(parser, only=(*EMBEDDING_FIELDS, *PRIMING_FIELDS))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Index the paths; exit code 1 when a file could not be taken in, the others are.

    With --delete, 1 when a document wasn't there, the others are deleted.
    """
    if options.pgvector and not options.paths and not options.delete:
        return pgvector_shown(options.into, options.pgvector)
    if bool(options.paths) == bool(options.delete):
        raise ConfigError("name files or directories to index, or documents to --delete ID")
    if options.delete:
        _refuse_for_delete(options)
        return delete_shown(options.into, options.delete, options.tenant)
    if options.tenant:
        raise ConfigError(
            "--tenant is for --delete, and these files' documents would be everybody's: lines of "
            "JSONL name their `tenant`, and a server takes a tenant's files (POST /v1/documents)"
        )
    pgvector = None
    if options.pgvector == NO_PGVECTOR:
        pgvector_shown(options.into, NO_PGVECTOR)
    elif options.pgvector:
        pgvector = VectorIndexKind(options.pgvector)
    config = server_config(options, only=EMBEDDING_FIELDS, index=options.into)
    report = index_shown(
        options.paths,
        options.into,
        config,
        prune=options.prune,
        search=None if options.index_kind is None else SearchMode(options.index_kind),
        chunk_tokens=options.chunk_tokens,
        overlap=options.overlap,
        follows_links=options.follow_links,
        pgvector=pgvector,
    )
    code = print_report(report, options.into)
    if options.prime and report.vectors:
        primed_with = PrimedWith(options.prime)
        _print_priming(_prime(options, primed_with), options.into, primed_with)
    return code


def _refuse_for_delete(options: argparse.Namespace) -> None:
    """Refuse what says how files are indexed, where documents are deleted instead."""
    for name in OF_FILES:
        if getattr(options, name) not in (None, False):
            raise ConfigError(f"--{name.replace('_', '-')} is for files, and --delete reads none")


def index_shown(
    paths: Sequence[Path],
    place: CorpusPlace,
    config: ServerConfig,
    *,
    prune: bool,
    restores_deleted: bool = True,
    search: SearchMode | None = None,
    chunk_tokens: int | None = None,
    overlap: int | None = None,
    follows_links: bool | None = None,
    pgvector: VectorIndexKind | None = None,
) -> IndexReport:
    """Bring a corpus up to date with files, and show the progress; see `index_paths`."""
    if is_remote(config.embedder):
        name = read_remote_name(str(config.embedder), "--embedder", os.environ)
        print(f"passages to embed go to {', '.join(map(str, name.addresses))}", file=sys.stderr)
    with ProgressLines() as progress:

        def on_documents(state: IngestProgress) -> None:
            progress.update("reading files", state.files_done, state.files_total)

        def on_vectors(state: EmbedProgress) -> None:
            progress.update("embedding chunks", state.chunks_done, state.chunks_total)

        def on_graph(phase: str, done: int, total: int) -> None:
            progress.update(f"building the graph, {phase}", done, total)

        return index_paths(
            paths,
            place,
            embedder=config.embedder,
            prune=prune,
            restores_deleted=restores_deleted,
            search=search,
            long_texts=config.long_texts,
            chunk_tokens=chunk_tokens,
            overlap=overlap,
            follows_links=follows_links,
            pgvector=pgvector,
            on_documents=on_documents,
            on_vectors=on_vectors,
            on_graph=on_graph,
            on_copies=_on_copies(progress),
        )


def pgvector_shown(place: CorpusPlace, kind: str) -> int:
    """Have the corpus's database make its own index, or remove it, and show the progress."""
    with CorpusStore.open(place) as store, ProgressLines() as progress:
        if kind == NO_PGVECTOR:
            if store.vector_index is not None:
                store.vector_index.remove()
            return 0
        check_inside(store, VectorIndexKind(kind))
        refresh_inside(store, VectorIndexKind(kind), _on_copies(progress))
    print(f"searched inside PostgreSQL with: heddle serve {place.typed} --search-in postgres")
    return 0


def _on_copies(progress: ProgressLines) -> OnRows:
    return lambda done, total: progress.update("copying vectors for pgvector", done, total)


def delete_shown(place: CorpusPlace, ids: Sequence[str], tenant: str) -> int:
    """Delete documents and print how many; exit code 1 when one wasn't there.

    A file's document may be named as its file is from here: its id is the whole path.
    """
    paths = {str(Path(one).resolve()): one for one in delete_documents(place, ids, tenant=tenant)}
    missing = [paths[path] for path in delete_documents(place, paths, tenant=tenant)]
    print(f"documents deleted: {len(ids) - len(missing)}")
    whose = f" of the tenant {tenant!r}" if tenant else ""
    for one in missing:
        print(f"error: no document {one!r}{whose} in {place}", file=sys.stderr)
    if missing:
        print(f"see the ids of its documents with: heddle docs {place.typed} ls", file=sys.stderr)
    return 1 if missing else 0


def _prime(options: argparse.Namespace, primed_with: PrimedWith) -> PrimingReport:
    os.nice(NICENESS)
    config = server_config(
        options,
        only=("embedder", *PRIMING_FIELDS),
        index=options.into,
        optimizations=Optimizations.APPROX,
        background_step_s=PRIMING_STEP_S,
    )
    with start_server(config) as server, ProgressLines() as progress:

        def on_plan(plan: PrimingPlan) -> None:
            progress.say(
                f"chunk KV of {plan.chunks} chunks, {plan.tokens} tokens: "
                f"about {readable_size(plan.disk_bytes)} on disk"
            )

        def on_progress(state: PrimingProgress) -> None:
            name = f"computing {state.stage.value} KV"
            progress.update(name, state.chunks_done, state.chunks_total, _pace(state))

        return server.prime(
            options.prime_neighbours,
            primed_with=primed_with,
            on_plan=on_plan,
            on_progress=on_progress,
        )


def _pace(state: PrimingProgress) -> str:
    if state.chunks_per_s is None or state.seconds_left is None:
        return ""
    return f"{state.chunks_per_s:.1f} chunks/s, about {state.seconds_left:.0f} s left"


def _print_priming(report: PrimingReport, place: CorpusPlace, primed_with: PrimedWith) -> None:
    counts = ", ".join(
        f"{report.computed[stage]} {stage.value} computed now" for stage in PrimingStage
    )
    print(f"chunk KV of {report.plan.chunks} chunks: {counts}, in {report.seconds:.0f} s")
    if report.too_long:
        print(f"longer than the model's context, without KV: {report.too_long}", file=sys.stderr)
    reuse = KvReuse(ReusePolicy.FUSIONRAG, primed_with=primed_with)
    print(f'use it:  heddle ask {place.typed} "your question" --kv-reuse {reuse}')


def print_report(report: IndexReport, place: CorpusPlace) -> int:
    documents = report.documents
    print(
        f"documents: {documents.added} new, {documents.changed} changed, "
        f"{documents.unchanged} unchanged, {documents.removed} removed"
    )
    if documents.files_unchanged:
        print(f"files unchanged since the last run, not read: {documents.files_unchanged}")
    if documents.without_documents:
        print(
            f"of these, without documents (deleted, or no text): {len(documents.without_documents)}"
            f" (such as {printable_line(documents.without_documents[0])}); to read such a file"
            f" again:  heddle docs {place.typed} add FILE"
        )
    if documents.gone:
        print(
            f"files gone, their documents kept: {len(documents.gone)} (such as"
            f" {printable_line(documents.gone[0])}); --prune deletes them"
        )
    embedded = report.embedded
    print(f"chunks embedded now: {embedded.chunks}; searchable: {report.vectors}")
    if report.twins:
        print(f"equal to other chunks, found by way of these: {report.twins}")
    if report.outdated:
        print(
            f"indexed by an older Heddle: {report.outdated} documents, whose passages name no"
            " place; index their files again"
        )
    if embedded.truncated:
        print(
            f"longer than the embedder takes, cut to its length: {embedded.truncated} chunks; "
            "--long-texts window reads all of them"
        )
    if embedded.windowed:
        print(f"longer than the embedder takes, read in windows: {embedded.windowed} chunks")
    for line in skipped_lines(documents.skipped):
        print(line, file=sys.stderr)
    for note in documents.failures:
        print(printable_line(f"error: {note.path}: {note.reason}"), file=sys.stderr)
    print(f'ask it:  heddle ask {place.typed} "your question"')
    return 1 if documents.failures else 0


def skipped_lines(skipped: Sequence[FileNote]) -> Iterator[str]:
    """Yield one line for each reason why files were skipped, with the first few of them."""
    by_reason: dict[str, list[str]] = {}
    for note in skipped:
        by_reason.setdefault(note.reason, []).append(note.path)
    for reason, paths in by_reason.items():
        if len(paths) == 1:
            yield printable_line(f"skipped {paths[0]}: {reason}")
        elif len(paths) <= NAMED_MAX:
            yield printable_line(f"skipped {len(paths)} files, {', '.join(paths)}: {reason}")
        else:
            named = ", ".join(paths[:NAMED_MAX])
            yield printable_line(f"skipped {len(paths)} files, such as {named}: {reason}")
