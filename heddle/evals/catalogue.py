"""Data sets by name, and files of known formats by what is in them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from heddle.core.errors import InputError
from heddle.evals.data_folder import data_file
from heddle.evals.dataset import Dataset
from heddle.evals.file_formats import read_file
from heddle.evals.loaders.documents import read_document_questions
from heddle.evals.loaders.manuals import FIGURE, TUNING, questions_file, read_manuals
from heddle.evals.loaders.medical import read_medical
from heddle.evals.loaders.offered import offered_rows
from heddle.evals.loaders.open_questions import read_open_questions
from heddle.evals.loaders.passage_rows import read_with_passages
from heddle.evals.loaders.wiki_test import held_questions
from heddle.evals.manuals.corpus import pages_folder
from heddle.evals.manuals.library import manual_pages
from heddle.evals.row import json_lines

READER_NOTES: Final = "reader-notes"
WIKI_TEST: Final = "wiki_single_test"


@dataclass(frozen=True, slots=True)
class Named:
    """A data set that is known by name: its loader and its description."""

    load: Callable[[str], Dataset]
    about: str


def load_dataset(name: str) -> Dataset:
    """Return a data set by its name, or of a file.

    A file may have any of the formats of `file_formats`.

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
            "`heddle eval list` names the files that can be read"
        )
    dataset = read_file(path)
    if not dataset.questions:
        raise InputError(f"{path} holds no questions")
    return dataset


def _open_questions(corpus: str | None) -> Callable[[str], Dataset]:
    def load(name: str) -> Dataset:
        return Dataset(name, read_open_questions(data_file(name)), corpus)

    return load


def _wiki_test(name: str) -> Dataset:
    corpus = "wiki_corpus"
    questions = read_open_questions(data_file("wiki_single"))
    return Dataset(WIKI_TEST, held_questions(questions, data_file(corpus)), corpus)


def _multihop(name: str) -> Dataset:
    return Dataset(name, read_with_passages(json_lines(data_file(name)), name))


def _multihop_test(name: str) -> Dataset:
    whole = _multihop("wiki_multihop")
    return replace(whole, questions=held_questions(whole.questions))


def _medical(name: str) -> Dataset:
    corpus = "med_corpus"
    return Dataset(name, read_medical(data_file(name), data_file(corpus)), corpus)


def _documents(dataset: str | None) -> Callable[[str], Dataset]:
    def load(name: str) -> Dataset:
        files = (data_file("docqa_single"), data_file("docqa_docs"))
        return Dataset(name, read_document_questions(*files, dataset))

    return load


def _manuals(part: str) -> Callable[[str], Dataset]:
    def load(name: str) -> Dataset:
        pages = manual_pages()
        found = read_manuals(questions_file(), pages, part)
        if not found.asked:
            raise InputError(f"{name}: this Python carries none of the documentation asked about")
        return Dataset(name, found.asked, folder=pages_folder(pages), skipped=found.skipped)

    return load


def _reader_notes(name: str) -> Dataset:
    return Dataset(name, read_with_passages(offered_rows(name), name), is_graded_by_kind=True)


NAMED: Final[dict[str, Named]] = {
    READER_NOTES: Named(_reader_notes, "five kinds of questions on invented notes, with passages"),
    WIKI_TEST: Named(
        _wiki_test, "one Wikipedia passage answers; 1,472 held back; --index of wiki_corpus"
    ),
    "wiki_single": Named(_wiki_test, f"{WIKI_TEST}: the other questions trained the extractor"),
    "wiki_multihop": Named(
        _multihop_test,
        "several Wikipedia passages answer; has its passages; 240 held back from 1,200",
    ),
    "med_single": Named(_medical, "medical, long answers; --index of med_corpus"),
    "docqa_single": Named(_documents(None), "covidqa and tatqa together"),
    "covidqa": Named(_documents("covidqa"), "papers on COVID-19, each its own document"),
    "tatqa": Named(_documents("tatqa"), "pages of financial reports, each its own document"),
    "manuals": Named(_manuals(FIGURE), "60 questions on what Python's own documentation says"),
    "manuals_tuning": Named(_manuals(TUNING), "60 others of that kind, to choose settings by"),
    "questions_only": Named(_open_questions(None), "questions with answers and without passages"),
    "mini_single": Named(
        _open_questions("mini_corpus"),
        "100 questions, 79 of which trained the extractor; --index of mini_corpus",
    ),
    "mini_multihop": Named(
        _multihop, "60 of all 1,200 multi-hop questions, some of them trained on; has its passages"
    ),
}
