"""A file's documents put into a corpus while it is served: parsed with limits, then embedded."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from heddle.app.indexing.chunk_embedding import Embedded, EmbeddingServer
from heddle.app.indexing.documents import delete_document, put_document
from heddle.app.indexing.sent_file import sent_file
from heddle.core.errors import InputError
from heddle.corpus.chunking import Chunking
from heddle.corpus.document import Document
from heddle.corpus.parsing.guarded_parser import GuardedParser
from heddle.corpus.parsing.limits import SENT_LIMITS
from heddle.corpus.records import PutOutcome
from heddle.corpus.store import CorpusStore

DOCUMENTS_MAX: Final = 1_000  # of a file: its client waits for all of them


@dataclass(frozen=True, slots=True)
class FileChange:
    """What putting a file did: how often each outcome, to how many chunks, and the revision."""

    outcomes: Counter[PutOutcome]
    embedded: Embedded
    revision: int


def put_file(
    server: EmbeddingServer,
    store: CorpusStore,
    name: str,
    content: bytes,
    *,
    tenant: str,
    chunking: Chunking,
) -> FileChange:
    """Store the documents of a file as `heddle index` reads it, and return once they are found.

    A document has the file's name as its id, unless the file gives it one, as a line of JSONL
    may; a line without one has the file's name and its number. So the same file, put again,
    replaces its documents, and those of numbered lines that it has no longer go. Tenants that
    lines name count for nothing: whose documents they are is the caller's to say.

    Args:
        server: embeds the chunks.
        store: the corpus.
        name: the file's, without a folder; its suffix says how it is read.
        content: the file's bytes.
        tenant: whose documents they are; "" = everybody's.
        chunking: how they are cut.

    Raises:
        InputError: the file can't be read, takes too much, has no text or too many documents.
            Nothing was stored.
        Busy, EngineError: a document couldn't be embedded; those before are stored.
        StorageError: the disk refuses.
    """
    outcomes: Counter[PutOutcome] = Counter()
    chunks = truncated = windowed = 0
    documents = _documents(name, content, tenant)
    for document in documents:
        change = put_document(server, store, document, chunking)
        outcomes[change.outcome] += 1
        chunks += change.embedded.chunks
        truncated += change.embedded.truncated
        windowed += change.embedded.windowed
    kept = {document.id for document in documents}
    for line in _numbered_lines(store, name, tenant):
        if line not in kept:
            delete_document(store, line, tenant=tenant)
    return FileChange(outcomes, Embedded(chunks, truncated, windowed), store.revision)


def _numbered_lines(store: CorpusStore, name: str, tenant: str) -> list[str]:
    """Return the ids of a tenant's documents that lines of a file had by their numbers."""
    found: list[str] = []
    last = (f"{name}#", "")
    while listed := store.documents.listed_after(last, DOCUMENTS_MAX, tenant):
        for one in listed:
            if not one.id.startswith(f"{name}#"):
                return found
            if one.tenant == tenant and one.id.removeprefix(f"{name}#").isdecimal():
                found.append(one.id)
        last = (listed[-1].id, listed[-1].tenant)
    return found


def _documents(name: str, content: bytes, tenant: str) -> list[Document]:
    """Return a file's documents that have a text, as a corpus stores them."""
    with sent_file(name, content) as path, GuardedParser(SENT_LIMITS) as parser:
        found: list[Document] = []
        try:
            for document in parser.documents(path):
                if len(found) == DOCUMENTS_MAX:
                    raise InputError(
                        f"{name}: has more than {DOCUMENTS_MAX:,} documents: use heddle index"
                    )
                if document.text.strip():
                    own = document.id.replace(str(path), name)
                    found.append(replace(document, id=own, source="", file=name, tenant=tenant))
        except InputError as error:
            kept = "; nothing was stored" if found else ""
            raise InputError(str(error).replace(str(path), name) + kept) from error
    if not found:
        raise InputError(f"{name}: no text in it")
    return found
