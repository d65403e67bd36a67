"""What the tools return: text that an assistant reads, and the same as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from heddle.core.passages import Passage
from heddle.core.printing.place_words import place_words
from heddle.core.printing.printable import printable_line, printable_text
from heddle.core.quotations import NOT_FOUND, Quotation
from heddle.corpus.records import ListedDocument
from heddle.runtime.events import Answer
from heddle.server.wire import Json, passage_json, quotation_json


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call, twice: `text` to read, `data` to work with."""

    text: str
    data: Json


def passages_result(passages: Sequence[Passage]) -> ToolResult:
    """Return what a search has found, the best first."""
    text = "\n\n".join(_numbered(passages)) or "Nothing was found."
    return ToolResult(text, {"passages": [passage_json(one) for one in passages]})


def answer_result(answer: Answer) -> ToolResult:
    """Return an answer with its quotes, and the passages that it rests on."""
    is_quoted = bool(answer.quotes or answer.nearest) or answer.text == NOT_FOUND
    lines = list(_quoted(answer) if is_quoted else _written(answer))
    data: Json = {
        "answer": answer.text,
        "quotes": [quotation_json(one) for one in answer.quotes],
        "nearest": [quotation_json(one) for one in answer.nearest],
        "passages": [passage_json(one) for one in answer.passages],
    }
    return ToolResult("\n\n".join(lines), data)


def documents_result(page: Sequence[ListedDocument], offset: int, total: int) -> ToolResult:
    """Return a page of a list of documents, and how many there are."""
    last = offset + len(page)
    shown = f"Documents {offset + 1} to {last} of {total}" if page else f"None of {total} documents"
    more = f"; ask for offset={last} to see more" if page and last < total else ""
    lines = [f"{shown}{more}:" if page else f"{shown}.", *map(_document_line, page)]
    documents = [
        {"id": one.id, "title": one.title, "file": one.file, "chunks": one.chunks} for one in page
    ]
    return ToolResult("\n".join(lines), {"documents": documents, "total": total})


def _quoted(answer: Answer) -> Iterator[str]:
    yield printable_text(answer.text)
    if answer.nearest:
        yield "The nearest places:"
    for one in answer.quotes or answer.nearest:
        yield f'"{_sentence(one)}"\n({place_words(one.passage)})'


def _written(answer: Answer) -> Iterator[str]:
    yield printable_text(answer.text)
    if answer.passages:
        yield "It rests on:"
    yield from _numbered(answer.passages)


def _numbered(passages: Sequence[Passage]) -> Iterator[str]:
    for rank, one in enumerate(passages, start=1):
        yield f"[{rank}] {place_words(one)}\n{printable_text(one.text)}"


def _sentence(quotation: Quotation) -> str:
    return printable_text(" ".join(quotation.sentence.split()))


def _document_line(one: ListedDocument) -> str:
    title = f"  {one.title}" if one.title not in (one.id, one.file) else ""
    return printable_line(f"{one.id}{title}  ({one.chunks} chunks)")
