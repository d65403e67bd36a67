"""A page's HTML as Markdown, so that headings become sections and code stays as it is."""

import re
from html.parser import HTMLParser

_HIDDEN = frozenset(("script", "style", "noscript", "template", "svg", "iframe", "object"))
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCK_TAGS = (
    "address article aside blockquote body caption dd details dialog div dl dt fieldset figcaption"
    " figure footer form header hr legend main nav ol p section summary table ul"
)
_BLOCKS = frozenset(_BLOCK_TAGS.split())
_LINES = frozenset(("br", "li", "tr", "option"))
_TICKS = re.compile("`{3,}")


class PageReader(HTMLParser):
    """Collects a page's title and its text as Markdown blocks; scripts and styles are left out.

    A caller feeds it the page, or hands it the tags and texts that another parser has found.

    Mutates: the blocks and the title that were read so far.
    """

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
    def name(self) -> str:
        """The page's title, else its first heading; "" if it has neither."""
        return _squeeze(self.title) or _squeeze(self.first_heading)

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
                # Longer than any in the code, which may be Markdown.
                fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(code)), default=0))
                self._blocks.append(f"{fence}\n{code}\n{fence}")
            self._words.clear()
        self._code_depth = max(0, self._code_depth - 1)


def read_page(page: str) -> PageReader:
    """Read all of a page."""
    reader = PageReader()
    reader.feed(page)
    reader.close()
    return reader


def _squeeze(text: str) -> str:
    return " ".join(text.split())
