"""An answer that is kept, the searches behind it, and a request's own lookup. (ADR 44)"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.core.passages import Passage
from heddle.core.quotations import Quotation, Quotations
from heddle.core.results import FinishReason
from heddle.graph.primitive import SearchConfig

VALUE_BYTES: Final = 200  # of a value's object, beside its text


@dataclass(frozen=True, slots=True, eq=False)
class KeptSearch:
    """A search that an answer rests on, as it can be run again.

    Args:
        config: how far it went, and how many passages it wanted.
        queries: its vectors [n, d] float32.
        words: their texts, where it searched by words as well; () where it didn't.
        is_question: whether its only text was the request's question.
        passages: that were found, in order.
    """

    config: SearchConfig
    queries: NDArray[np.float32]
    words: tuple[str, ...]
    is_question: bool
    passages: tuple[Passage, ...]

    def found_again(self, passages: Sequence[Passage], *, in_order: bool) -> bool:
        """Whether passages are those that it found, unchanged; distances and scores don't count."""
        known, found = ([*map(_content, group)] for group in (self.passages, passages))
        if not in_order:
            known, found = (sorted(group, key=_chunk_id) for group in (known, found))
        return known == found


@dataclass(slots=True, eq=False)
class KeptAnswer:
    """An answer that is kept for requests to come.

    Args:
        scope: all that it depends on beside its question and the corpus: tenant, filter, workflow,
            other inputs, how approximate it may be.
        question: that was asked then.
        vector: the question's [d] float32; None = it is found by its text alone.
        node: the node that wrote the text; "" = it was quoted.
        text, passages, quotes, nearest, finish_reason: of its Answer.
        slots: the values of the slots that the workflow wrote.
        searches: that it rests on.
        revision: of the corpus, when no search had begun; None = not known.
        kept_s: when it was kept [s].

    Mutates: `revision` grows when its searches have found the same passages again.
    """

    scope: Hashable
    question: str
    vector: NDArray[np.float32] | None
    node: str
    text: str
    passages: tuple[Passage, ...]
    quotes: tuple[Quotation, ...]
    nearest: tuple[Quotation, ...]
    finish_reason: FinishReason | None
    slots: Mapping[str, object]
    searches: tuple[KeptSearch, ...]
    revision: int | None
    kept_s: float
    nbytes: int = field(init=False)

    def __post_init__(self) -> None:
        searched = sum(s.queries.nbytes + size_of(s.passages) for s in self.searches)
        own = 0 if self.vector is None else self.vector.nbytes
        texts = (self.scope, self.question, self.text, self.passages, self.quotes, self.nearest)
        self.nbytes = own + searched + sum(map(size_of, (*texts, *self.slots.values())))

    @property
    def is_declined(self) -> bool:
        """Whether the passages were read and hold no answer."""
        return not self.quotes and bool(self.nearest)

    @property
    def chunk_ids(self) -> frozenset[int]:
        """The chunks that its searches found."""
        return frozenset(p.chunk_id for search in self.searches for p in search.passages)


@dataclass(slots=True)
class LookupDraft:
    """A request's lookup while the request runs: what was tried, and what its searches find.

    Args:
        node, key: the cache's, and the key that it writes.
        scope, question, vector, revision: those of the answer that is kept in the end.
        candidate: the answer that is being checked; None = none is.
        similarity: the cosine of its question and this one.
        texts: what was embedded, by the key of its vectors.
        searches: the searches of the workflow so far.
    """

    node: str
    key: str
    scope: Hashable
    question: str
    vector: NDArray[np.float32] | None
    revision: int | None
    candidate: KeptAnswer | None = None
    similarity: float = 1.0
    texts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    searches: list[KeptSearch] = field(default_factory=list)


def size_of(value: object) -> int:
    """Return about what a value takes [bytes], as far as its text does."""
    if isinstance(value, str):
        return VALUE_BYTES + len(value.encode())
    if isinstance(value, Passage):
        return VALUE_BYTES + size_of(value.title) + size_of(value.text)
    if isinstance(value, Quotation):
        return VALUE_BYTES + size_of(value.sentence) + size_of(value.passage)
    if isinstance(value, Quotations):
        return size_of((*value.found, *value.nearest, *value.passages))
    if isinstance(value, tuple | list):
        return VALUE_BYTES + sum(map(size_of, value))
    return VALUE_BYTES


def _content(passage: Passage) -> Passage:
    return replace(passage, distance=0.0, score=None)


def _chunk_id(passage: Passage) -> int:
    return passage.chunk_id
