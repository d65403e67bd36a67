"""The documents that come with a request: checked, cut into chunks, and kept nowhere. (ADR 34)"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from heddle.core.errors import InputError
from heddle.core.passages import OWN_CHUNK_MIN, Passage, Place
from heddle.core.texts.text_check import check_unicode
from heddle.corpus.chunking import Chunking, TextChunk, chunk_document
from heddle.corpus.document import Document
from heddle.corpus.parsing.decoding import clean
from heddle.workflow.template import DOCUMENTS
from heddle.workflow.workflow import Workflow

DOCUMENTS_MAX: Final = 64
DOCUMENTS_BYTES_MAX: Final = 1 << 20
FIELDS: Final = frozenset({"title", "text"})

GivenDocument = str | Mapping[str, str]
"""A text, or a mapping with `text` and perhaps `title`."""


def checked_documents(
    given: object, field: str = "documents", places: Sequence[str] = ()
) -> tuple[Document, ...]:
    """Return the documents that a caller gives with a request; () for None.

    Args:
        given: the documents.
        field: what the caller knows them by.
        places: what each is known by; () = its place in the list.

    Raises:
        InputError: one can't be used, has no text, or they are too many or too large; the message
            names the field.
    """
    if given is None:
        return ()
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise InputError(f"{field} must be a list of documents, got {type(given).__name__}")
    if len(given) > DOCUMENTS_MAX:
        raise InputError(
            f"{field}: {len(given)} are more than {DOCUMENTS_MAX}: send fewer, or index them"
        )
    known = dict(enumerate(places))
    documents = tuple(
        _document(one, number, known.get(number, f"{field}[{number}]"))
        for number, one in enumerate(given)
    )
    held = sum(len(one.text.encode()) + len(one.title.encode()) for one in documents)
    if held > DOCUMENTS_BYTES_MAX:
        raise InputError(
            f"{field}: they hold {held:,} bytes of text, more than {DOCUMENTS_BYTES_MAX:,}: send "
            "less, or index them"
        )
    return documents


def documents_input(
    workflow: Workflow, documents: Sequence[Document], chunking: Callable[[], Chunking]
) -> dict[str, object]:
    """Return the workflow's input that the chunks of a request's documents are, if it has one.

    Raises:
        InputError: it needs documents and there are none, or takes none and there are some.
    """
    if DOCUMENTS not in workflow.inputs:
        if documents:
            raise InputError(
                f"documents: workflow {workflow.name!r} reads the corpus, and no documents that "
                "come with the request: leave them out, or ask workflow 'doc_qa_naive'"
            )
        return {}
    if not documents:
        raise InputError(
            f"documents: workflow {workflow.name!r} answers from documents that come with the "
            "request: give at least one"
        )
    return {DOCUMENTS: tuple(_passages(documents, chunking()))}


def _document(given: object, number: int, where: str) -> Document:
    if isinstance(given, str):
        given = {"text": given}
    if not isinstance(given, Mapping) or not set(given) <= FIELDS or "text" not in given:
        raise InputError(f"{where} must be a text, or have the field text and perhaps title")
    for name, value in given.items():
        if not isinstance(value, str):
            raise InputError(f"{where}: {name} must be a string, got {type(value).__name__}")
        check_unicode(value, f"{where}: {name}")
    text, title = clean(given["text"]), " ".join(clean(given.get("title", "")).split())
    if not text.strip():
        raise InputError(f"{where}: text is empty: leave the document out, or send its text")
    name = title or f"document {number + 1}"
    return Document(f"documents[{number}]", name, text, source="", has_headings=True)


def _passages(documents: Sequence[Document], chunking: Chunking) -> Iterator[Passage]:
    """Yield the chunks of documents, with ids that no corpus has."""
    chunk_id = OWN_CHUNK_MIN
    for document in documents:
        for chunk in chunk_document(document, chunking):
            yield _passage(document, chunk, chunk_id)
            chunk_id += 1


def _passage(document: Document, chunk: TextChunk, chunk_id: int) -> Passage:
    place = Place(heading=chunk.heading, start=chunk.start, end=chunk.end)
    return Passage(
        chunk_id, document.id, chunk.title, chunk.text, position=chunk.position, place=place
    )
