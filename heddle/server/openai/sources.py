"""What an answer rests on, three ways: annotations, the `heddle` object, and Markdown.

OpenAI's client keeps `annotations` and unknown objects; chat interfaces show the text alone.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from heddle.core.passages import Passage
from heddle.core.quotations import Quotation
from heddle.runtime.events import Answer
from heddle.server.wire import Json, passage_json, quotation_json

SNIPPET_CHARS: Final = 200
LISTED_MAX: Final = 10  # in the Markdown block
OF_DOCUMENT: Final = "heddle:documents/"
_URL: Final = re.compile(r"https?://", re.IGNORECASE)
# What could begin a link, an image, HTML or other Markdown; a title is a stranger's text.
_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]()<>!|~&$]|:(?=//)|(?<=www)\.)")


@dataclass(frozen=True, slots=True)
class Source:
    """A place that an answer rests on, with what stands there."""

    passage: Passage
    snippet: str

    @property
    def url(self) -> str:
        """Its address: the document's own, or one that names it and leads nowhere."""
        names = (self.passage.place.file, self.passage.document_id)
        own = next((name for name in names if _URL.match(name)), "")
        page = self.passage.place.page
        place = "" if page is None else f"#page={page}"
        return own or f"{OF_DOCUMENT}{quote(self.passage.document_id)}{place}"


def sources_of(answer: Answer) -> tuple[Source, ...]:
    """Return what an answer rests on: its quotes, or the passages that its prompt showed.

    An answer that says that nothing was found rests on nothing.
    """
    if answer.quotes:
        return tuple(_of_quotes(answer.quotes))
    if answer.nearest:
        return ()
    return tuple(Source(one, one.text) for one in answer.passages)


def annotations(sources: Iterable[Source], text: str) -> list[Json]:
    """Return sources as OpenAI's annotations of a text; each is of the whole text.

    A chat's annotations are of type `url_citation` alone, and litellm refuses a reply with others.
    So a document of the corpus has an address, too, and `file_citation` stands beside it.
    """
    return [_annotation(source, index, len(text)) for index, source in enumerate(sources)]


def heddle_json(answer: Answer, workflow: str, ignored: Sequence[str]) -> Json:
    """Return the object `heddle` of a reply: what was run and found, and the receipt.

    Args:
        answer: the answer.
        workflow: that was run; empty = the LLM alone.
        ignored: fields of the request that say how a model writes, where none writes the answer.
    """
    return {
        "workflow": workflow or None,
        "passages": [passage_json(passage) for passage in answer.passages],
        "quotes": [quotation_json(quotation) for quotation in answer.quotes],
        "nearest": [quotation_json(quotation) for quotation in answer.nearest],
        "ignored": list(ignored),
        "receipt": answer.receipt,
    }


def sources_block(answer: Answer) -> str:
    """Return a Markdown list of what an answer rests on, to end its text with; "" = nothing.

    Where nothing was found, it lists the places that come nearest.
    """
    found, title = sources_of(answer), "Sources"
    if not found:
        found, title = tuple(_of_quotes(answer.nearest)), "Nearest places"
    if not found:
        return ""
    lines = [f"{n}. {_line(source)}" for n, source in enumerate(found[:LISTED_MAX], start=1)]
    return "\n\n".join(["", f"**{title}**", "\n".join(lines)])


def _of_quotes(quotes: Iterable[Quotation]) -> Iterator[Source]:
    return (Source(one.passage, one.sentence) for one in quotes)


def _annotation(source: Source, index: int, length: int) -> Json:
    passage = source.passage
    citation: Json = {
        "start_index": 0,
        "end_index": length,
        "title": passage.title,
        "url": source.url,
    }
    cited: Json = {
        "file_id": passage.document_id,
        "filename": passage.place.file or passage.title,
        "index": index,
        "quote": source.snippet,
        "page": passage.place.page,
    }
    return {"type": "url_citation", "url_citation": citation, "file_citation": cited}


def _line(source: Source) -> str:
    passage = source.passage
    title = _escaped(passage.title or passage.document_id)
    place = str(passage.place)
    where = f" ({_escaped(place)})" if place and place != passage.title else ""
    return f"*{title}*{where}: {_escaped(_cut(source.snippet))}"


def _cut(text: str) -> str:
    return text if len(text) <= SNIPPET_CHARS else f"{text[: SNIPPET_CHARS - 1]}…"


def _escaped(text: str) -> str:
    """Return a text as Markdown shows it letter by letter, on one line."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return _MARKDOWN.sub(r"\\\1", line)
