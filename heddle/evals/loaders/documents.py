"""Upload and ask: questions about one whole document (docqa_single over docqa_docs)."""

from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

from heddle.app.indexing.chunk_lengths import default_chunking
from heddle.core.passages import Passage
from heddle.corpus.chunking import chunk_document
from heddle.corpus.document import Document
from heddle.evals.loaders.corpus import read_documents
from heddle.evals.loaders.passage_rows import accepted_answers
from heddle.evals.question import EvalQuestion, chunk_name, given_passage
from heddle.evals.row import Row, json_lines

ALL_NEEDED = "multi-span"


@dataclass(frozen=True, slots=True)
class CutDocument:
    """A document's chunks as passages, and the character at which each begins."""

    passages: tuple[Passage, ...]
    starts: tuple[int, ...]

    def gold_of(self, span: tuple[int, int]) -> range:
        """Return the positions of the chunks that characters [start, end) lie in."""
        first = max(0, bisect_right(self.starts, span[0]) - 1)
        last = max(first, bisect_right(self.starts, max(span[0], span[1] - 1)) - 1)
        return range(first, last + 1)


def read_document_questions(
    path: Path, documents: Path, dataset: str | None = None
) -> tuple[EvalQuestion, ...]:
    """Return the questions, each with its document's chunks, cut as `heddle index` cuts them.

    Gold are the chunks that an annotated span lies in. TAT-QA's multi-span questions want all
    their answers; its arithmetic and count answers stand nowhere in the text. With `dataset`,
    covidqa or tatqa, the questions are those of that one.

    Raises:
        InputError: a file or a field is not as it should be, or a document is missing.
    """
    rows = [row for row in json_lines(path) if dataset in (None, row.text("dataset"))]
    wanted = {row.text("doc") for row in rows}
    read = (document for document in read_documents(documents) if document.id in wanted)
    cut = {document.id: cut_document(document) for document in read}
    found = []
    for row in rows:
        name = row.text("doc")
        if name not in cut:
            row.refuse("doc", f"is not in {documents}")
        found.append(_question(row, name, cut[name]))
    return tuple(found)


def cut_document(document: Document) -> CutDocument:
    """Return a document's chunks and where they begin."""
    chunks = chunk_document(document, default_chunking())
    return CutDocument(
        tuple(
            given_passage(document.id, chunk.title, chunk.text, chunk.position) for chunk in chunks
        ),
        tuple(chunk.start for chunk in chunks),
    )


def _question(row: Row, document_id: str, cut: CutDocument) -> EvalQuestion:
    kind = row.text("type")
    positions = sorted({at for span in row.pairs("gold") for at in cut.gold_of(span)})
    return EvalQuestion(
        id=row.text("id"),
        question=row.filled_text("question"),
        answers=accepted_answers(row),
        passages=cut.passages,
        gold=tuple((chunk_name(document_id, at),) for at in positions),
        kind=f"{row.text('dataset')} {kind}",
        requires_all_answers=kind == ALL_NEEDED,
    )
