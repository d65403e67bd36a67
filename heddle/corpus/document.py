"""A document: what a file, or a line of a JSONL file, says."""

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed document.

    `id` is stable from run to run: the file's absolute path, or the id that its JSONL line
    carries. `source` is the file it came from. `has_headings` says that lines like `## Name`
    are Markdown headings and not, say, comments in a shell script.
    """

    id: str
    title: str
    text: str
    source: str
    has_headings: bool = False

    @property
    def sha256(self) -> str:
        """What an indexer compares to see whether the document has changed."""
        digest = hashlib.sha256()
        for part in (self.title, self.text, str(self.has_headings)):
            digest.update(part.encode("utf-8", "surrogatepass"))
            digest.update(b"\x00")
        return digest.hexdigest()
