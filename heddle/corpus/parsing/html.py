"""HTML: its text as Markdown, so that headings become sections and code stays as it is."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from heddle.corpus.document import Document
from heddle.corpus.parsing.decoding import decode
from heddle.corpus.parsing.file_reading import read_whole
from heddle.corpus.parsing.limits import ParseLimits

_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset=["']?([\w.:-]{1,40})""", re.IGNORECASE)
_HEAD_BYTES = 4096
_HIDDEN = frozenset(("script", "style", "noscript", "template", "svg", "iframe", "object"))
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCK_TAGS = (
    "address article aside blockquote body caption dd details dialog div dl dt fieldset figcaption"
    " figure footer form header hr legend main nav ol p section summary table ul"
)
_BLOCKS = frozenset(_BLOCK_TAGS.split())
_LINES = frozenset(("br", "li", "tr", "option"))


def parse_html(path: Path, limits: ParseLimits) -> Iterator[Document]:
    """Give the page as one document with headings; scripts and styles are left out.

    Raises: InputError: it is missing, unreadable, too large or binary.
    """
    content = read_whole(path, limits)
    charset = _CHARSET.search(content[:_HEAD_BYTES])
    reader = _PageReader()
    reader.feed(decode(content, path, charset[1].decode("ascii") if charset else "utf-8"))
    reader.close()
    title = _squeeze(reader.title) or _squeeze(reader.first_heading) or path.stem
    yield Document(str(path), title, reader.text, str(path), has_headings=True)


class _PageReader(HTMLParser):
    """Collects a page's title and its text as Markdown blocks."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self.first_heading = ""
        self._blocks: list[str] = []
        self._words: list[str] = []  # the block that is being read
        self._hidden: list[str] = []  # open tags that hide what is in them
        self._in_title = False
        self._code_depth = 0

    @property
    def text(self) -> str:
        """The blocks read so far, as Markdown."""
        return "\n\n".join(self._blocks)

    def close(self) -> None:
        super().close()
        if self._code_depth:
            self._code_depth = 1  # what was left open ends with the page
            self._end_code()
        self._end_block()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HIDDEN:
            self._hidden.append(tag)
        elif tag == "title" and not self._hidden:
            self._in_title = True
        elif tag == "pre":
            self._end_block()
            self._code_depth += 1
        elif tag in _BLOCKS or tag in _HEADINGS:
            self._end_block()
        elif tag in _LINES:
            self._words.append("\n- " if tag == "li" else "\n")
        elif tag in ("td", "th"):
            self._words.append(" | ")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._hidden:
            # What was left open inside it ends with it.
            del self._hidden[self._hidden.index(tag) :]
        elif tag == "title":
            self._in_title = False
        elif tag == "pre":
            self._end_code()
        elif tag in _HEADINGS:
            self._end_heading(_HEADINGS[tag])
        elif tag in _BLOCKS:
            self._end_block()

    def handle_data(self, data: str) -> None:
        if self._hidden:
            return
        if self._in_title:
            self.title += data
        else:
            self._words.append(data if self._code_depth else re.sub(r"\s+", " ", data))

    def _end_block(self) -> None:
        if self._code_depth:
            return  # a block inside <pre> is code too
        lines = (_squeeze(line).strip("|").strip() for line in "".join(self._words).split("\n"))
        block = "\n".join(line for line in lines if line not in ("", "-"))
        if block:
            self._blocks.append(block)
        self._words.clear()

    def _end_heading(self, level: int) -> None:
        if self._code_depth:
            return
        words = _squeeze("".join(self._words))
        if words:
            self._blocks.append(f"{'#' * level} {words}")
            self.first_heading = self.first_heading or words
        self._words.clear()

    def _end_code(self) -> None:
        if self._code_depth == 1:
            code = "".join(self._words).strip("\n")
            if code.strip():
                self._blocks.append(f"```\n{code}\n```")
            self._words.clear()
        self._code_depth = max(0, self._code_depth - 1)


def _squeeze(text: str) -> str:
    return " ".join(text.split())
