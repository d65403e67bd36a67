"""Cut documents into chunks that an embedding model reads whole and a prompt has room for.

A chunk is a slice of the text. Headings come first, then paragraphs that stay together while they
fit, then sentences, lines and words, each only where the coarser piece doesn't fit. A section that
says little goes with the one after it, or the one before it, its heading in the text.

The text is tokenised once; what is tried afterwards is counted in the tokens' places. Last, each
chunk is measured as it is embedded, and a section with a chunk that is too long is cut again.
"""

import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise
from typing import Final, NamedTuple

from heddle.core.errors import ConfigError
from heddle.core.texts.sentences import sentence_ends
from heddle.corpus.document import Document
from heddle.corpus.sections import Section, joined, sections, shorter_title
from heddle.corpus.text_counts import WORD, WORD_CHARS_MAX, WORDS, TextCounter

FORM: Final = 2  # of how chunks are cut: grows when equal settings give other chunks
CHARS_MAX_EACH: Final = 16  # characters of a chunk for each unit that it may have
LITTLE: Final = 8  # a section of less than that part of a chunk says little

_PARAGRAPH_END = re.compile(r"\n[ \t]*\n\s*")
_LINE_END = re.compile(r"\n")


@dataclass(frozen=True, slots=True)
class TextChunk:
    """A piece of a document; `position` counts the document's chunks from 0.

    `text` is the document's text from `start` to `end`; `heading` are the headings above it, the
    outermost first, and `page` is the page on which it begins, None where there are no pages.
    """

    position: int
    title: str
    text: str
    start: int = 0
    end: int = 0
    page: int | None = None
    heading: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Chunking:
    """How long chunks are, and how much each repeats of the one before it.

    Args:
        size: the most that a chunk has, in what `counter` counts.
        overlap: how much of the chunk before it a chunk begins with, of the same section.
        counter: counts; words, where no model is known.

    Raises: ConfigError: a bound is too small to work with.
    """

    size: int = 120
    overlap: int = 0
    counter: TextCounter = WORDS

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ConfigError(f"size must be at least 1, not {self.size}")
        if not 0 <= self.overlap <= self.size // 2:
            raise ConfigError(
                f"overlap must be from 0 to half of a chunk's size ({self.size // 2}),"
                f" not {self.overlap}"
            )

    @property
    def chars_max(self) -> int:
        """The most characters of a chunk, most of them white space where it is reached."""
        return max(2 * WORD_CHARS_MAX, CHARS_MAX_EACH * self.size)

    @property
    def stamp(self) -> str:
        """The parameters in words, to compare and to show."""
        return f"form {FORM}: {self.size} {self.counter.unit}, overlap {self.overlap}"


class Piece(NamedTuple):
    """Characters [start, end) of the text, with no space at either end, and their length."""

    start: int
    end: int
    length: int


def chunk_document(document: Document, chunking: Chunking) -> tuple[TextChunk, ...]:
    """Return a document's chunks, in its order; none if it has no text.

    Every character but white space is in a chunk, in order, or in the titles (of headings).
    A chunk as it is embedded has at most `size` units, and ends inside a word only if that has
    more than `WORD_CHARS_MAX` characters or more units than fit. Equal documents give equal chunks.
    """
    cutting = _Cutting(document, chunking)
    found = (
        (section, piece) for section in cutting.sections() for piece in cutting.pieces(section)
    )
    return tuple(
        TextChunk(
            position,
            section.title,
            document.text[piece.start : piece.end],
            piece.start,
            piece.end,
            document.page_at(piece.start),
            section.path,
        )
        for position, (section, piece) in enumerate(found)
    )


class _Cutting:
    """Cuts one document."""

    def __init__(self, document: Document, chunking: Chunking) -> None:
        self.document, self.chunking = document, chunking
        self.places = _Places(chunking.counter.starts(document.text))
        self._overheads: dict[str, int] = {}

    def sections(self) -> Iterator[Section]:
        """Give the sections, under titles that leave room; little ones go with a neighbour."""
        forward: list[Section] = []
        for section in sections(self.document):
            both = self._both(forward[-1], section) if forward else None
            if both and self._says_little(forward[-1]):
                forward[-1] = both
            else:
                forward.append(section)
        kept: list[Section] = []
        for section in forward:
            both = self._both(kept[-1], section) if kept else None
            if both and self._says_little(section):
                kept[-1] = both
            else:
                kept.append(section)
        return (replace(section, title=self._fitting(section.title)) for section in kept)

    def pieces(self, section: Section) -> list[Piece]:
        """Return a section's chunks, each within the bounds as it is embedded."""
        size, text = self._room(section.title), self.document.text
        while True:
            found = _Cutter(text, self.chunking, self.places, size).cut(section.start, section.end)
            texts = [text[piece.start : piece.end] for piece in found]
            lengths = self.chunking.counter.embedded(section.title, texts)
            excess = max(lengths, default=0) - self.chunking.size
            # Some tokenizers make other tokens of a piece than of the text around it.
            if excess <= 0 or size == 1:
                return found
            size = max(1, size - excess)

    def _both(self, left: Section, right: Section) -> Section | None:
        """Return two sections as one, if it fits a chunk."""
        both = joined(self.document.title, left, right)
        if both is None or both.end - both.start > self.chunking.chars_max:
            return None
        return both if self.places.count(both.start, both.end) <= self._room(both.title) else None

    def _says_little(self, section: Section) -> bool:
        return self.places.count(section.start, section.end) < self.chunking.size // LITTLE

    def _room(self, title: str) -> int:
        """Return how many units a chunk's text may have beside its title."""
        return max(1, self.chunking.size - self._overhead(self._fitting(title)))

    def _fitting(self, title: str) -> str:
        """Return the title, shortened until it leaves half of a chunk to the text."""
        while title and self._overhead(title) > self.chunking.size // 2:
            title = shorter_title(title)
        return title

    def _overhead(self, title: str) -> int:
        if title not in self._overheads:
            self._overheads[title] = self.chunking.counter.embedded(title, [""])[0]
        return self._overheads[title]


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the units of a text begin: counts any part of it in logarithmic time."""

    starts: "array[int]"

    def count(self, start: int, end: int) -> int:
        """Return how many units begin in [start, end)."""
        return bisect_left(self.starts, end) - bisect_left(self.starts, start)

    def cuts(self, start: int, end: int, size: int) -> Iterator[int]:
        """Give places in [start, end) with up to `size` units between them, one character at least.

        Units of one character begin together: they can't be parted.
        """
        while True:
            at = bisect_left(self.starts, start) + size
            if at >= len(self.starts) or self.starts[at] >= end:
                return
            start = max(self.starts[at], start + 1)
            if start >= end:
                return
            yield start


class _Cutter:
    """Cuts one text into chunks of up to `size` units, with those that overlap."""

    def __init__(self, text: str, chunking: Chunking, places: _Places, size: int) -> None:
        self.text, self.places = text, places
        self.overlap = min(chunking.overlap, size // 2)
        self.size = size - self.overlap
        self.chars_max = chunking.chars_max

    def cut(self, start: int, end: int) -> list[Piece]:
        """Return the chunks of a section."""
        chunks: list[Piece] = []
        for span in self.spans(start, end, _paragraph_ends(self.text, start, end)):
            whole = self.measure(*span)
            parts = [whole] if whole else self.split(*span)
            # A paragraph joins the chunk before it if it fits whole; a long one also takes in a
            # short line that stands before it, which would be a poor chunk by itself.
            if chunks and (len(parts) == 1 or chunks[-1].length < self.size // 4):
                joined = _join(chunks[-1], parts[0])
                if self.fits(joined):
                    chunks.pop()
                    parts[0] = joined
            chunks.extend(parts)
        return self.with_overlap(chunks)

    def split(self, start: int, end: int) -> list[Piece]:
        """Cut a paragraph that is too long; the last two chunks get about equally long."""
        chunks: list[Piece] = []
        for piece in self.pieces(start, end):
            joined = _join(chunks[-1], piece) if chunks else piece
            if chunks and self.fits(joined):
                chunks[-1] = joined
            else:
                chunks.append(piece)
        return chunks[:-2] + self.balance(*chunks[-2:]) if len(chunks) > 1 else chunks

    def balance(self, left: Piece, right: Piece) -> list[Piece]:
        """Move the cut between two chunks to where they differ least."""
        pieces = list(self.pieces(left.start, right.end))
        lengths = list(accumulate(piece.length for piece in pieces))
        total = lengths[-1]
        for cut in sorted(range(len(pieces) - 1), key=lambda cut: abs(2 * lengths[cut] - total)):
            new_left = self.piece(left.start, pieces[cut].end)
            new_right = self.piece(pieces[cut + 1].start, right.end)
            if self.fits(new_left) and self.fits(new_right):
                return [new_left, new_right]
        return [left, right]

    def pieces(self, start: int, end: int, level: int = 0) -> Iterator[Piece]:
        """Give the largest pieces of a paragraph that fit: sentences, else lines, else words."""
        if level == len(_ENDS):
            for word in WORD.finditer(self.text, start, end):
                cuts = self.places.cuts(*word.span(), self.size)
                for first, last in pairwise((word.start(), *cuts, word.end())):
                    yield self.piece(first, last)
            return
        for span in self.spans(start, end, _ENDS[level](self.text, start, end)):
            piece = self.measure(*span)
            if piece:
                yield piece
            else:
                yield from self.pieces(*span, level=level + 1)

    def spans(self, start: int, end: int, cuts: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Give what lies between the cuts, without the white space around it."""
        for cut in chain(cuts, (end,)):
            first, last = start, cut
            while first < last and self.text[first].isspace():
                first += 1
            while first < last and self.text[last - 1].isspace():
                last -= 1
            if first < last:
                yield first, last
            start = cut

    def measure(self, start: int, end: int) -> Piece | None:
        """Return the piece if it fits a chunk."""
        piece = self.piece(start, end)
        return piece if self.fits(piece) else None

    def piece(self, start: int, end: int) -> Piece:
        """Return [start, end) with its length."""
        return Piece(start, end, self.places.count(start, end))

    def fits(self, piece: Piece) -> bool:
        """Whether a piece is within both bounds."""
        is_short = piece.end - piece.start <= self.chars_max
        return is_short and piece.length <= self.size

    def with_overlap(self, chunks: list[Piece]) -> list[Piece]:
        """Let each chunk begin with the last words of the one before it."""
        if self.overlap == 0 or len(chunks) < 2:
            return chunks
        overlapped = chunks[:1]
        for before, chunk in pairwise(chunks):
            earliest = chunk.end - self.chars_max
            starts = (word.start() for word in WORD.finditer(self.text, before.start, before.end))
            fitting = (
                start
                for start in starts
                if start >= earliest and self.places.count(start, before.end) <= self.overlap
            )
            overlapped.append(self.piece(next(fitting, chunk.start), chunk.end))
        return overlapped


def _join(left: Piece, right: Piece) -> Piece:
    return Piece(left.start, right.end, left.length + right.length)


def _paragraph_ends(text: str, start: int, end: int) -> Iterator[int]:
    return (found.end() for found in _PARAGRAPH_END.finditer(text, start, end))


def _line_ends(text: str, start: int, end: int) -> Iterator[int]:
    return (found.end() for found in _LINE_END.finditer(text, start, end))


_ENDS: tuple[Callable[[str, int, int], Iterator[int]], ...] = (
    sentence_ends,
    _line_ends,
)
