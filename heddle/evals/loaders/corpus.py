"""Passages of the corpus files: wiki_corpus, med_corpus, mini_corpus, docqa_docs."""

from collections.abc import Iterator
from pathlib import Path

from heddle.core.errors import InputError
from heddle.core.passages import Passage
from heddle.corpus.document import Document
from heddle.corpus.parsing.jsonl import parse_jsonl
from heddle.corpus.parsing.limits import ParseLimits
from heddle.evals.question import given_passage


def read_documents(path: Path) -> Iterator[Document]:
    """Give the documents of a corpus file, as `heddle index` reads them.

    Raises:
        InputError: the file can't be read, or a line is bad; names the line.
    """
    return parse_jsonl(path, ParseLimits())


def read_passages(path: Path, ids: frozenset[str] | None = None) -> dict[str, Passage]:
    """Return a corpus file's passages by id; with `ids`, those only.

    Raises:
        InputError: the file can't be read, or it lacks some of `ids`.
    """
    found = {
        document.id: given_passage(document.id, document.title, document.text)
        for document in read_documents(path)
        if ids is None or document.id in ids
    }
    if ids is not None and (missing := ids - found.keys()):
        shown = ", ".join(sorted(missing)[:3])
        raise InputError(f"{path}: {len(missing)} of {len(ids)} passages aren't there: {shown}")
    return found
