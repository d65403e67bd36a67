"""A passage: a chunk of a document as retrieval returns it and a prompt shows it."""

from dataclasses import dataclass
from typing import Final

OWN_CHUNK_MIN: Final = 1 << 52
"""Chunk ids from here on are of no corpus; JSON numbers hold them exactly."""


def embedding_text(title: str, text: str) -> str:
    """Return what is embedded for a chunk."""
    return f"{title}\n{text}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a passage stands, so that a reader can look it up.

    Args:
        file: the file it was read from, as it was named when indexed; "" = it came as text.
        page: the page on which it begins, from 1; None = the format has no pages.
        heading: the headings above it, the outermost first.
        start, end: its characters in the document's text as it was read, [start, end).
    """

    file: str = ""
    page: int | None = None
    heading: tuple[str, ...] = ()
    start: int = 0
    end: int = 0

    def __str__(self) -> str:
        """Return file and page, as in "manual.pdf:12"; "" where there is no file."""
        return self.file if self.page is None or not self.file else f"{self.file}:{self.page}"


NO_PLACE: Final = Place()


@dataclass(frozen=True, slots=True)
class Passage:
    """A retrieved chunk. `distance` is the squared L2 distance of normalised vectors, in [0, 4].

    `score` is what a model that has read it with the question gives it; None = none has read it.
    `place` is where it stands; in `copies` other places of the same tenant and collection stand the
    same title and text.

    `tenant` and `collection` are its document's: what is computed from several chunks together
    is computed from those of one tenant and collection only.

    Example:
        [passage] = server.search("Who founded Oak Mill?", topk=1).passages
        print(passage.title, passage.place, passage.distance < 1)  # mill notes/mill.txt True
        print(passage.text.splitlines()[-1])
        # It ground oats and barley for the bakers of the valley.
    """

    chunk_id: int
    document_id: str
    title: str
    text: str
    distance: float = 0.0
    position: int = 0
    tenant: str = ""
    collection: str = ""
    place: Place = NO_PLACE
    copies: int = 0
    score: float | None = None

    @property
    def is_own(self) -> bool:
        """Whether its request brought it: no corpus holds it, and nothing of it is kept."""
        return self.chunk_id >= OWN_CHUNK_MIN

    def precedes(self, other: "Passage") -> bool:
        """Whether the other passage is the next chunk of the same document."""
        owner = (self.document_id, self.tenant, self.collection)
        is_same = owner == (other.document_id, other.tenant, other.collection)
        return is_same and self.position + 1 == other.position

    def render(self) -> str:
        """Return the passage as prompts show it, the same at every rank: its KV can be reused."""
        return f"## {self.title}\n{self.text}\n\n"
