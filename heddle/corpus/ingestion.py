"""Take files into the corpus: parse, cut, store. What is embedded comes after. (pending.py)"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from heddle.core.errors import InputError
from heddle.corpus.chunking import Chunking, TextChunk, chunk_document
from heddle.corpus.document import Document
from heddle.corpus.file_discovery import FileNote
from heddle.corpus.indexing_plan import IndexPlan, is_gone, plan, source_file
from heddle.corpus.parsing.guarded_parser import GuardedParser
from heddle.corpus.parsing.limits import ParseLimits
from heddle.corpus.parsing.parse_file import DEFAULT_LIMITS
from heddle.corpus.records import PutOutcome
from heddle.corpus.store import CorpusStore

BATCH_DOCUMENTS = 200  # one fsync for as many; a transaction stays well under a second
BATCH_CHARS = 4_000_000
DEFAULT_CHUNKING = Chunking()
IN_PART = "; the documents before it are in, those behind it are not read"

Batch = list[tuple[Document, tuple[TextChunk, ...]]]


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """How far a run is; `path` is the file that is being read."""

    path: str
    files_done: int
    files_total: int
    documents: int
    chunks: int


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What a run did.

    `added`, `changed`, `unchanged` and `removed` count documents, and `chunks` those of new texts;
    `files_unchanged` were not even read; `without_documents` are those of them whose documents were
    deleted, or had no text. `gone` are files that exist no more and whose documents were kept.
    `failures` were asked for and are not in, or only in part: a command that meets them
    ends with an error that lists them.
    """

    added: int
    changed: int
    unchanged: int
    removed: int
    chunks: int
    files: int
    files_unchanged: int
    without_documents: tuple[str, ...]
    gone: tuple[str, ...]
    skipped: tuple[FileNote, ...]
    failures: tuple[FileNote, ...]


@dataclass(slots=True)
class _Run:
    """Counts of a run while it goes on. Mutates: all of it."""

    store: CorpusStore
    chunking: Chunking
    parser: GuardedParser
    scan: int
    files_total: int
    on_progress: Callable[[IngestProgress], None]
    outcomes: dict[PutOutcome, int] = field(default_factory=lambda: dict.fromkeys(PutOutcome, 0))
    removed: int = 0
    chunks: int = 0
    files_done: int = 0
    skipped: list[FileNote] = field(default_factory=list)
    failures: list[FileNote] = field(default_factory=list)

    @property
    def documents(self) -> int:
        """How many were stored, or were there already."""
        return sum(self.outcomes.values())

    def report_progress(self, path: Path) -> None:
        """Tell how far it is."""
        self.on_progress(
            IngestProgress(
                str(path), self.files_done, self.files_total, self.documents, self.chunks
            )
        )


def ignore_progress(progress: IngestProgress) -> None:
    """Do nothing with it."""


def ingest_documents(
    store: CorpusStore,
    paths: Iterable[Path],
    on_progress: Callable[[IngestProgress], None] = ignore_progress,
    *,
    prune: bool = False,
    restores_deleted: bool = False,
    chunking: Chunking = DEFAULT_CHUNKING,
    limits: ParseLimits = DEFAULT_LIMITS,
) -> IngestReport:
    """Bring the corpus up to date with files: new and changed ones, and with `prune` lost ones.

    What a changed file no longer says is deleted. The documents of a file that exists no more are
    kept unless `prune` is set, as it may only be out of reach: a disk that isn't mounted looks
    like an empty directory.

    Every stored chunk is checked first: files whose chunks are damaged are read anew. A document
    that was deleted comes back when its file changes, or with `restores_deleted`.

    A file that can't be used does not stop the others; its earlier documents stay. A run that was
    stopped at any moment can be started again: it continues with the missing files. Memory: one
    file that is read whole, or one batch of a JSONL file.

    Args:
        store: an open corpus.
        paths: files and directories.
        on_progress: called after each batch and each file.
        prune: delete the documents of files at or under these paths that exist no more.
        restores_deleted: read a file among these paths anew if all its documents were deleted. Of
            files under a directory they stay deleted.
        chunking: how texts are cut; files that were cut in another way are read anew.
        limits: how large files may be, and what reading one may take.

    Raises:
        InputError: a path does not exist; nothing was done.
        StorageError: the disk refuses; what was committed stays.
    """
    paths = tuple(paths)
    incomplete = store.runs.damaged_sources()
    if restores_deleted:
        named = {str(path.resolve()) for path in paths}
        incomplete |= named & store.runs.sources_without_documents()
    todo = plan(paths, store, prune=prune, chunking=chunking.stamp, incomplete=incomplete)
    store.runs.set_chunking(chunking.stamp)
    # The ids of files that are gone are free: a JSONL file that was moved keeps its documents.
    store.runs.forget_sources(_gone(store.runs.source_names()))
    for source in todo.touched:
        store.runs.touch_source(source)
    store.runs.open_sources(map(str, todo.changed))
    files = todo.added + todo.changed
    with GuardedParser(limits) as parser:
        run = _Run(store, chunking, parser, store.runs.begin_scan(), len(files), on_progress)
        for path in files:
            documents = run.documents
            try:
                _ingest_file(run, path, todo.names[path])
            except InputError as error:
                note = FileNote.of(path, error)
                is_in_part = run.documents > documents
                run.failures.append(
                    replace(note, reason=note.reason + IN_PART) if is_in_part else note
                )
            run.files_done += 1
            run.report_progress(path)
    if prune:
        # Some programs take a file away for a moment as they write it.
        run.removed += store.runs.delete_sources(_gone(todo.gone))
    return _report(run, todo)


def _gone(names: Iterable[str]) -> list[str]:
    """Return the files that exist no more, looked at before a write begins: disks may be slow."""
    return [name for name in names if is_gone(name)]


def _ingest_file(run: _Run, path: Path, name: str) -> None:
    source = replace(source_file(path), chunking=run.chunking.stamp)
    is_empty = True
    documents = (replace(document, file=name) for document in run.parser.documents(path))
    for batch in document_batches(documents, run.chunking):
        is_empty = False
        try:
            _put(run, batch)
        except InputError:
            for one in batch:  # what stands before the bad one is good
                _put(run, [one])
            raise
        run.report_progress(path)
    if is_empty:
        run.skipped.append(FileNote(str(path), "no text in it"))
    run.removed += run.store.runs.finish_source(source, run.scan)


def _put(run: _Run, batch: Batch) -> None:
    """Store a batch and count what that did."""
    stamp = run.chunking.stamp
    outcomes = run.store.documents.put_documents(batch, scan=run.scan, chunking=stamp)
    for outcome, (_, chunks) in zip(outcomes, batch, strict=True):
        run.outcomes[outcome] += 1
        has_new_text = outcome in (PutOutcome.ADDED, PutOutcome.CHANGED)
        run.chunks += len(chunks) if has_new_text else 0


def document_batches(documents: Iterable[Document], chunking: Chunking) -> Iterator[Batch]:
    """Group documents with their chunks, bounded in number and size; those without text go."""
    batch: Batch = []
    chars = 0
    try:
        for document in documents:
            chunks = chunk_document(document, chunking)
            if not chunks:
                continue
            batch.append((document, chunks))
            chars += len(document.text)
            if len(batch) >= BATCH_DOCUMENTS or chars >= BATCH_CHARS:
                yield batch
                batch, chars = [], 0
    except InputError:
        # A bad line: what stands before it is good.
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _report(run: _Run, todo: IndexPlan) -> IngestReport:
    # A JSONL file that was only moved has taken its documents along.
    kept = set(run.store.runs.source_names())
    without_documents = run.store.runs.sources_without_documents()
    return IngestReport(
        added=run.outcomes[PutOutcome.ADDED],
        changed=run.outcomes[PutOutcome.CHANGED] + run.outcomes[PutOutcome.DESCRIBED],
        unchanged=run.outcomes[PutOutcome.UNCHANGED],
        removed=run.removed,
        chunks=run.chunks,
        files=run.files_total,
        files_unchanged=len(todo.unchanged),
        without_documents=tuple(p for p in map(str, todo.unchanged) if p in without_documents),
        gone=tuple(name for name in todo.gone if name in kept and is_gone(name)),
        skipped=todo.skipped + tuple(run.skipped),
        failures=todo.refused + tuple(run.failures),
    )
