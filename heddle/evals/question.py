"""A question with its right answers, in the one form that every data set is brought to."""

import hashlib
from dataclasses import dataclass

from heddle.core.passages import OWN_CHUNK_MIN, Passage


@dataclass(frozen=True, slots=True)
class EvalQuestion:
    """A question and what is known about it.

    Attributes:
        answers: accepted answers, any one of which is right; empty = none is known.
        passages: the question's own passages, in the data set's order; None = it has none and
            something has to be retrieved.
        gold: what has to be found: a group of ids for each passage needed. The ids of a group
            are passages of the same text, so any one of them will do. An id is a document's, or
            "document#position" for one chunk of it. Empty = none is marked.
        kind: what results are reported by.
        requires_all_answers: the right answer is all of `answers` together, in any order.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    passages: tuple[Passage, ...] | None = None
    gold: tuple[tuple[str, ...], ...] = ()
    kind: str = "all"
    requires_all_answers: bool = False


def is_gold(passage: Passage, group: tuple[str, ...]) -> bool:
    """Whether a passage is what a gold group names: the document, or that chunk of it."""
    chunk = chunk_name(passage.document_id, passage.position)
    return passage.document_id in group or chunk in group


def chunk_name(document_id: str, position: int) -> str:
    """Return the id of one chunk of a document, as gold groups name it."""
    return f"{document_id}#{position}"


def given_passage(document_id: str, title: str, text: str, position: int = 0) -> Passage:
    """Return a passage that comes from no index.

    Its chunk id is a hash of the text that a prompt shows of it: equal passages share an id and
    different ones don't, across all data sets, so KV kept for one is never taken for another.
    """
    digest = hashlib.sha256(f"{title}\0{text}".encode()).digest()
    chunk_id = int.from_bytes(digest[:8], "big") % OWN_CHUNK_MIN  # as ids of a corpus are
    return Passage(chunk_id, document_id, title, text, position=position)


def passage_text(passage: Passage) -> str:
    """Return a passage as text: its title, then its text."""
    return f"{passage.title}\n{passage.text}"
