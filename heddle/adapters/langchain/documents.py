"""Passages as LangChain's documents."""

from langchain_core.documents import Document

from heddle.core.passages import Passage


def document_of(passage: Passage) -> Document:
    """Return a passage as a document; its metadata says where it stands."""
    place = passage.place
    metadata: dict[str, object] = {
        "source": place.file or passage.document_id,
        "title": passage.title,
        "document_id": passage.document_id,
        "chunk_id": passage.chunk_id,
        "distance": passage.distance,
        "start": place.start,
        "end": place.end,
    }
    if place.page is not None:
        metadata["page"] = place.page
    if place.heading:
        metadata["heading"] = list(place.heading)
    if passage.score is not None:
        metadata["score"] = passage.score
    return Document(page_content=passage.text, metadata=metadata, id=str(passage.chunk_id))
