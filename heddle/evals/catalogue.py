"""Data sets by name, and files of known formats by what is in them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from heddle.core.errors import InputError
from heddle.evals.data_folder import data_file
from heddle.evals.dataset import Dataset
from heddle.evals.loaders.cacheblend import read_cacheblend
from heddle.evals.loaders.documents import read_document_questions
from heddle.evals.loaders.longbench import read_longbench
from heddle.evals.loaders.medical import read_medical
from heddle.evals.loaders.offered import offered_rows
from heddle.evals.loaders.open_questions import read_open_questions
from heddle.evals.loaders.passage_rows import read_with_passages
from heddle.evals.loaders.squad import read_squad
from heddle.evals.row import Row, json_document, json_lines, rows_of

READER_NOTES: Final = "reader-notes"
# Kinds of reader-notes; a file with these kinds is graded the same way.
READER_KINDS: Final = ("single_hop", "two_hop", "comparison", "coreference", "not_in_notes")


@dataclass(frozen=True, slots=True)
class Named:
    """A data set that is known by name: how it is loaded, and what it is."""

    load: Callable[[str], Dataset]
    about: str


def load_dataset(name: str) -> Dataset:
    """Return a data set by its name, or of a file.

    A file may be SQuAD's .json, CacheBlend's .json, LongBench's .jsonl, or .jsonl (or .jsonl.gz)
    with the fields of `loaders.passage_rows`.

    Raises:
        InputError: the name is unknown, the data isn't there, or a file, line or field is not as
            it should be.
    """
    if name in NAMED:
        return NAMED[name].load(name)
    path = Path(name).expanduser()
    if not path.is_file():
        raise InputError(
            f"data set {name!r} is no file and none of {', '.join(NAMED)}; "
            "files: SQuAD or CacheBlend .json, LongBench .jsonl, .jsonl with passages"
        )
    dataset = _of_file(path)
    if not dataset.questions:
        raise InputError(f"{path} holds no questions")
    return dataset


def _open_questions(corpus: str | None) -> Callable[[str], Dataset]:
    def load(name: str) -> Dataset:
        return Dataset(name, read_open_questions(data_file(name)), corpus)

    return load


def _multihop(name: str) -> Dataset:
    return Dataset(name, read_with_passages(json_lines(data_file(name)), name))


def _medical(name: str) -> Dataset:
    corpus = "med_corpus"
    return Dataset(name, read_medical(data_file(name), data_file(corpus)), corpus)


def _documents(name: str) -> Dataset:
    return Dataset(name, read_document_questions(data_file(name), data_file("docqa_docs")))


def _reader_notes(name: str) -> Dataset:
    return Dataset(name, read_with_passages(offered_rows(name), name), is_graded_by_kind=True)


NAMED: Final[dict[str, Named]] = {
    READER_NOTES: Named(_reader_notes, "five kinds of questions on invented notes, with passages"),
    "wiki_single": Named(
        _open_questions("wiki_corpus"), "one Wikipedia passage answers; --index of wiki_corpus"
    ),
    "wiki_multihop": Named(_multihop, "several Wikipedia passages answer; has its passages"),
    "med_single": Named(_medical, "medical, long answers; --index of med_corpus"),
    "docqa_single": Named(_documents, "papers and financial reports, each its own document"),
    "questions_only": Named(_open_questions(None), "questions with answers and without passages"),
    "mini_single": Named(
        _open_questions("mini_corpus"), "100 questions of wiki_single; --index of mini_corpus"
    ),
    "mini_multihop": Named(_multihop, "60 questions of wiki_multihop; has its passages"),
}


def _of_file(path: Path) -> Dataset:
    name = path.name.split(".json")[0]
    if path.name.removesuffix(".gz").endswith(".json"):
        content = json_document(path)
        if isinstance(content, dict) and "data" in content:
            return Dataset(name, read_squad(Row(str(path), content), path))
        if not isinstance(content, list):
            raise InputError(f'{path}: must be a list (CacheBlend) or have a field "data" (SQuAD)')
        return _of_rows(rows_of(content, str(path)), name)
    return _of_rows(json_lines(path), name)


def _of_rows(rows: Iterator[Row], name: str) -> Dataset:
    first = next(rows, None)
    if first is None:
        return Dataset(name, ())
    everything = chain((first,), rows)
    if first.has("ctxs"):
        return Dataset(name, read_cacheblend(everything, name))
    if first.has("context") and first.has("input"):
        return Dataset(name, read_longbench(everything))
    if first.has("passages"):
        questions = read_with_passages(everything, name)
        kinds = {question.kind for question in questions}
        return Dataset(name, questions, is_graded_by_kind=kinds <= set(READER_KINDS))
    raise InputError(
        f"{first.where}: has neither ctxs (CacheBlend), input and context (LongBench), nor "
        f"passages; it has {', '.join(first.fields)}"
    )
