"""Indexing as bulk requests on the runtime: chunk -> Embedding -> Ingestion."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from heddle.app.assembly.server_plan import REMOTE_DTYPE, embedder_dtype
from heddle.app.indexing.chunk_embedding import BATCH_ROWS, Embedded, embed_batches
from heddle.app.indexing.chunk_lengths import chunking_for
from heddle.app.models.embedder_source import open_embedder
from heddle.app.models.remote_models import open_remote_embedder
from heddle.app.priming.chunk_kv_disk import chunk_kv_directory
from heddle.app.server import Server
from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError, InputError, StorageError
from heddle.core.tasks import Priority
from heddle.corpus.ingestion import IngestProgress, IngestReport, ingest_documents
from heddle.corpus.pending import pending_batches
from heddle.corpus.place import CorpusPlace, Where
from heddle.corpus.records import EmbedderStamp
from heddle.corpus.sqlite.storage_errors import storage_errors
from heddle.corpus.store import CorpusStore
from heddle.corpus.vector_index import OnRows, VectorIndexKind
from heddle.engines.embedding.long_texts import LongTexts
from heddle.engines.vector.build import refresh_index
from heddle.engines.vector.files.index_kind import SearchMode
from heddle.engines.vector.forget_index import forget_indexes
from heddle.engines.vector.graph.progress import OnPhase
from heddle.hosts.machine import read_machine
from heddle.kv.disk.forget_files import forget_files


@dataclass(frozen=True, slots=True)
class EmbedProgress:
    """How many chunks have their vectors, of how many."""

    chunks_done: int
    chunks_total: int


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What an indexing run did: to the documents, and to the vectors.

    `twins` are chunks that equal another one and are found by way of it; `outdated` are documents
    that an older Heddle has cut.
    """

    documents: IngestReport
    embedded: Embedded
    vectors: int
    revision: int
    twins: int = 0
    outdated: int = 0


def index_paths(
    paths: Iterable[Path],
    into: Where,
    *,
    embedder: str | Path | None = None,
    prune: bool = False,
    restores_deleted: bool = False,
    search: SearchMode | None = None,
    long_texts: LongTexts = LongTexts.CUT,
    chunk_tokens: int | None = None,
    overlap: int | None = None,
    follows_links: bool | None = None,
    pgvector: VectorIndexKind | None = None,
    on_documents: Callable[[IngestProgress], None],
    on_vectors: Callable[[EmbedProgress], None],
    on_graph: OnPhase = lambda phase, done, count: None,
    on_copies: OnRows = lambda done, count: None,
) -> IndexReport:
    """Bring the corpus at `into` up to date with files. Stopped and run again, it resumes.

    `prune` deletes the documents of files at or under `paths` that exist no more.
    `restores_deleted` brings back the documents of a file among `paths` if all of them were
    deleted; those of a file under a directory come back when that file changes. `search` says
    how the corpus is searched from now on; None leaves that as it was, at first AUTO. Servers that
    are running on the corpus see every change at their next search, but search in another way only
    when they are started again. `long_texts` says what becomes of chunks longer than the embedder
    takes. `chunk_tokens` is the most tokens of a chunk with its title, and `overlap` how many of
    them it repeats of the chunk before it; None leaves both as they were, at first 200 and 0. Files
    that were cut in another way are read anew. `follows_links` says whether links that lead out of
    the paths are followed; None leaves that as it was, at first not. `pgvector` has the corpus's
    database make an index of this kind, anew where it has one; None keeps the one that there is
    whole. Where there is one, and `search` is None, no index is made on this node. `on_graph` and
    `on_copies` hear how far the build of a graph and of the database's index is. The stored
    chunk KV of what is deleted goes with it, for every model. A first run that takes in no
    document leaves nothing behind.

    Raises:
        InputError: a path isn't there, or nothing was found to index.
        ConfigError: the embedder can't be used, the corpus was made with another one, a chunk
            would be too long or too short, or the database can't have that index.
        StorageError: the disk refuses; what was committed stays.
    """
    paths, place = tuple(paths), CorpusPlace.of(into)
    remote = open_remote_embedder(embedder)
    encoder = open_embedder(embedder) if remote is None else remote.first
    with _made_or_opened(place) as store:
        check_inside(store, pgvector)
        dtype = REMOTE_DTYPE
        if remote is None:
            dtype = embedder_dtype("auto", store.embedder, read_machine())
        store.set_embedder(EmbedderStamp(encoder.name, encoder.dims, dtype))
        chunking = chunking_for(encoder, store, chunk_tokens, overlap)
        if follows_links is not None:
            store.runs.set_follows_links(follows_links)
        report = ingest_documents(
            store,
            paths,
            on_documents,
            prune=prune,
            restores_deleted=restores_deleted,
            chunking=chunking,
        )
        if store.stats().chunks == 0 and not report.removed:
            raise InputError(_nothing(report))
        store.runs.add_roots(str(path.resolve()) for path in paths)
        embedded = embed_pending(store, embedder, long_texts, on_vectors)
        is_inside = refresh_inside(store, pgvector, on_copies)
        if search is not None or not is_inside:
            refresh_index(place, search, on_graph)
        forget_files(chunk_kv_directory(place.work), store.deleted(0).tolist())
        stats = store.stats()
        return IndexReport(
            report, embedded, store.vector_count, store.revision, stats.twins, stats.outdated
        )


def refresh_inside(store: CorpusStore, kind: VectorIndexKind | None, on_copies: OnRows) -> bool:
    """Have a corpus's database make an index, or bring its own up to date.

    Returns: whether there is one now.

    Raises:
        ConfigError: this user may not make it.
    """
    index = store.vector_index
    if index is None or (kind is None and index.kind() is None):
        return False
    index.refresh(kind, on_copies)
    return True


def check_inside(store: CorpusStore, kind: VectorIndexKind | None) -> None:
    """Refuse an index inside the database, before anything is done, where it can't be.

    Raises:
        ConfigError: the corpus is a directory, or its database lacks what this takes.
    """
    if kind is None:
        return
    if store.vector_index is None:
        raise ConfigError(
            f"pgvector is of PostgreSQL, and {store.place} is a directory: leave it out, or index "
            "into postgresql://USER@HOST/DATABASE"
        )
    store.vector_index.check_offered()


@contextmanager
def _made_or_opened(place: CorpusPlace) -> Iterator[CorpusStore]:
    """Open the corpus, or make one: which is removed again if no document has come in."""
    is_new = not CorpusStore.exists(place)
    missing = [path for path in (place.work, *place.work.parents) if not path.exists()]
    is_empty = True
    try:
        with CorpusStore.open(place, create=True) as store:
            is_empty = False  # until it has been looked at
            if is_new:
                with storage_errors(place.work):
                    forget_indexes(place.work)
            try:
                yield store
            finally:
                is_empty = store.stats().documents == 0
    finally:
        if is_new and is_empty:
            # A corpus that another process has opened stays, and a directory with other files.
            with suppress(OSError, InputError, StorageError):
                CorpusStore.remove(place)
                for path in missing:
                    path.rmdir()


def embed_pending(
    store: CorpusStore,
    embedder: str | Path | None,
    long_texts: LongTexts,
    on_vectors: Callable[[EmbedProgress], None],
) -> Embedded:
    """Embed every chunk that has no vector yet."""
    total = store.stats().pending
    if total == 0:
        return Embedded()
    on_vectors(EmbedProgress(0, total))
    settings = {"embedder": embedder, "long_texts": long_texts}
    if store.vector_index is not None and store.vector_index.is_ready():
        settings["search_in"] = "postgres"  # a lane that embeds alone needs no index
    config = ServerConfig.of(None, store.place, settings)
    done = Embedded()

    def report(chunks: int) -> None:
        on_vectors(EmbedProgress(done.chunks + chunks, total))

    with Server.from_config(config, needs_vectors=False) as server:
        while True:
            # A chunk waits for the vector of an equal one, and is left where that one is deleted
            # before it has its own: the next pass takes it up.
            batches = pending_batches(store, BATCH_ROWS)
            found = embed_batches(server, batches, Priority.BULK, report)
            done = Embedded(*map(sum, zip(done, found, strict=True)))
            if not found.chunks:
                return done


def _nothing(report: IngestReport) -> str:
    reasons = "; ".join(f"{n.path}: {n.reason}" for n in (*report.failures, *report.skipped)[:5])
    return "nothing to index was found" + (f" ({reasons})" if reasons else "; name files with text")
