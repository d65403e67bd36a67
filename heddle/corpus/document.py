"""A document: what a file, or a line of a JSONL file, says."""

import hashlib
from bisect import bisect_right
from dataclasses import dataclass

from heddle.core.search_scope import Metadata

DocumentKey = tuple[str, str]
"""A document's identity: tenant and id."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading's level (1 is the highest), its words, and the characters it takes, [start, end).

    It takes none where its words stand nowhere in the text, as with a PDF's bookmarks.
    """

    level: int
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed document.

    `id` is stable from run to run: the file's absolute path, or the id that its JSONL line
    carries. `source` is the file it came from. `has_headings` says that lines like `## Name`
    are Markdown headings and not, say, comments in a shell script; a format with headings of its
    own gives them as `headings`, in the order of the text. `tenant` says whose it is, ""
    is everybody's; ids are unique within a tenant. What is computed from several chunks together
    is computed within one `collection`. A search can ask for `metadata`. `pages` are the
    characters at which the pages begin, in order, () where the format has none. `file` is what
    passages show as the file they come from; `source`, if it is empty.
    """

    id: str
    title: str
    text: str
    source: str
    has_headings: bool = False
    tenant: str = ""
    collection: str = ""
    metadata: Metadata = ()
    headings: tuple[Heading, ...] = ()
    pages: tuple[int, ...] = ()
    file: str = ""

    @property
    def key(self) -> DocumentKey:
        """The document's identity in the corpus: tenant and id."""
        return self.tenant, self.id

    def page_at(self, character: int) -> int | None:
        """Return the page that a character stands on, from 1; None = there are no pages."""
        return max(1, bisect_right(self.pages, character)) if self.pages else None

    @property
    def sha256(self) -> str:
        """What an indexer compares to see whether the text, or where it stands, has changed."""
        digest = hashlib.sha256()
        parts = [self.title, self.text, str(self.has_headings)]
        if self.headings:
            parts.append(repr(self.headings))
        if self.pages:
            parts.append(repr(self.pages))
        for part in parts:
            digest.update(part.encode("utf-8", "surrogatepass"))
            digest.update(b"\x00")
        return digest.hexdigest()
