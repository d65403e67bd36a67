"""Heddle's passages as Haystack's documents."""

from dataclasses import asdict

from haystack import Document

from heddle.core.passages import Passage


def document_of(passage: Passage) -> Document:
    """Return a passage as a document.

    Its id is the chunk's, so that a joiner sees the same chunk of two searches as one. `score` is
    what a model that has read it gives it, or the cosine of query and passage, at least 0.
    """
    score = passage.score
    if score is None:
        score = max(0.0, 1.0 - passage.distance / 2.0)
    meta = {
        "title": passage.title,
        "document_id": passage.document_id,
        "chunk_id": passage.chunk_id,
        **asdict(passage.place),
        "heading": list(passage.place.heading),
    }
    return Document(id=str(passage.chunk_id), content=passage.text, meta=meta, score=score)
