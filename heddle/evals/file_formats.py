"""Formats of data files, told apart by the fields of their first row."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from heddle.core.errors import InputError
from heddle.evals.dataset import Dataset
from heddle.evals.loaders.cacheblend import read_cacheblend
from heddle.evals.loaders.longbench import read_longbench
from heddle.evals.loaders.passage_rows import read_with_passages
from heddle.evals.loaders.published.answer_lists import (
    read_dpr_questions,
    read_flashrag,
    read_open_answers,
    read_web_questions,
)
from heddle.evals.loaders.published.answer_tables import read_finqabench, read_truthful
from heddle.evals.loaders.published.dpr import read_dpr
from heddle.evals.loaders.published.hotpot import read_hotpot
from heddle.evals.loaders.published.ms_marco import ms_marco_rows, read_ms_marco
from heddle.evals.loaders.published.musique import read_musique
from heddle.evals.loaders.published.natural_questions import read_natural_questions
from heddle.evals.loaders.published.trivia import read_trivia
from heddle.evals.loaders.published.wikiqa import read_wikiqa
from heddle.evals.loaders.squad import read_squad
from heddle.evals.question import EvalQuestion
from heddle.evals.row import Row, json_document, json_lines, rows_of
from heddle.evals.tables import TSV, table_rows

# Kinds of reader-notes; a file with these kinds is graded the same way.
READER_KINDS: Final = ("single_hop", "two_hop", "comparison", "coreference", "not_in_notes")
TABLES: Final = (TSV, ".csv")
GZIP: Final = ".gz"
PARQUET: Final = ".parquet"
Read = Callable[[Iterable[Row], str], tuple[EvalQuestion, ...]]


@dataclass(frozen=True, slots=True)
class RowFormat:
    """A format with a row for each question, or for each of its passages.

    Attributes:
        title: whose format it is.
        files: the names of its files, as they are published.
        fields: what a row has; of several formats that suit a row, the first one holds.
    """

    title: str
    files: str
    fields: tuple[str, ...]
    read: Read


@dataclass(frozen=True, slots=True)
class DocumentFormat:
    """A format of one JSON object; `fields` are of that object."""

    title: str
    files: str
    fields: tuple[str, ...]
    read: Callable[[Row, Path], tuple[EvalQuestion, ...]]


def _longbench(rows: Iterable[Row], name: str) -> tuple[EvalQuestion, ...]:
    del name  # a row has an id
    return read_longbench(rows)


def _wikiqa(rows: Iterable[Row], name: str) -> tuple[EvalQuestion, ...]:
    del name  # a line has ids
    return read_wikiqa(rows)


def _trivia(document: Row, path: Path) -> tuple[EvalQuestion, ...]:
    del path  # a question has an id
    return read_trivia(document)


def _ms_marco(document: Row, path: Path) -> tuple[EvalQuestion, ...]:
    return read_ms_marco(ms_marco_rows(document), _name(path))


ROW_FORMATS: Final = (
    RowFormat("CacheBlend", "inputs/*.json", ("ctxs",), read_cacheblend),
    RowFormat("LongBench", "data/*.jsonl", ("input", "context"), _longbench),
    RowFormat("DPR with passages", "biencoder-nq-dev.json", ("positive_ctxs",), read_dpr),
    RowFormat(
        "HotpotQA, 2WikiMultihopQA",
        "hotpot_dev_distractor_v1.json, dev.json",
        ("question", "context"),
        read_hotpot,
    ),
    RowFormat("MuSiQue", "musique_ans_v1.0_dev.jsonl", ("question", "paragraphs"), read_musique),
    RowFormat(
        "Natural Questions",
        "nq-dev-00.jsonl.gz, v1.0-simplified-nq-train.jsonl.gz",
        ("question_text", "annotations"),
        read_natural_questions,
    ),
    RowFormat("MS MARCO, a line a question", "*.jsonl", ("query", "passages"), read_ms_marco),
    RowFormat("questions with passages", "*.jsonl", ("passages",), read_with_passages),
    RowFormat(
        "WebQuestions",
        "webquestions.examples.test.json",
        ("utterance", "targetValue"),
        read_web_questions,
    ),
    RowFormat("FlashRAG", "dev.jsonl", ("question", "golden_answers"), read_flashrag),
    RowFormat("NQ-open", "NQ-open.dev.jsonl", ("question", "answer"), read_open_answers),
)
TABLE_FORMATS: Final = (
    RowFormat("WikiQA", "WikiQA.tsv", ("QuestionID", "SentenceID", "Label"), _wikiqa),
    RowFormat("TruthfulQA", "TruthfulQA.csv", ("Question", "Best Answer"), read_truthful),
    RowFormat("FinQABench", "*.csv", ("query", "expected_response", "context"), read_finqabench),
    RowFormat("DPR's questions", "nq-test.qa.csv", ("question", "answers"), read_dpr_questions),
)
DOCUMENT_FORMATS: Final = (
    DocumentFormat("SQuAD", "dev-v2.0.json", ("data",), read_squad),
    DocumentFormat("TriviaQA", "qa/wikipedia-dev.json", ("Data",), _trivia),
    DocumentFormat("MS MARCO", "dev_v2.1.json", ("query", "passages"), _ms_marco),
)


def read_file(path: Path) -> Dataset:
    """Return the questions of a file of any of these formats, plain or gzipped.

    Raises:
        InputError: the file has none of these formats, or a line or field is not as it should
            be; names the file, the line and the field.
    """
    suffix = Path(path.name.removesuffix(GZIP)).suffix.lower()
    if suffix == PARQUET:
        raise InputError(
            f"{path}: Parquet is not read; turn it into JSONL first: "
            "pandas.read_parquet(FILE).to_json(FILE, orient='records', lines=True)"
        )
    if suffix in TABLES:
        return _of_rows(table_rows(path, suffix), path, TABLE_FORMATS)
    if suffix == ".json":
        return _of_json(path)
    return _of_rows(json_lines(path), path, ROW_FORMATS)


def _of_json(path: Path) -> Dataset:
    content = json_document(path)
    if isinstance(content, list):
        return _of_rows(rows_of(content, str(path)), path, ROW_FORMATS)
    if isinstance(content, dict):
        document = Row(str(path), content)
        for one in DOCUMENT_FORMATS:
            if all(map(document.has, one.fields)):
                return Dataset(_name(path), one.read(document, path))
    known = "; ".join(f'"{one.fields[0]}" ({one.title})' for one in DOCUMENT_FORMATS)
    raise InputError(f"{path}: must be a list of questions, or an object with a field {known}")


def _of_rows(rows: Iterator[Row], path: Path, formats: tuple[RowFormat, ...]) -> Dataset:
    name = _name(path)
    first = next(rows, None)
    if first is None:
        return Dataset(name, ())
    for one in formats:
        if all(map(first.has, one.fields)):
            questions = one.read(chain((first,), rows), name)
            kinds = {question.kind for question in questions}
            return Dataset(name, questions, is_graded_by_kind=kinds <= set(READER_KINDS))
    known = "; ".join(f"{', '.join(one.fields)} ({one.title})" for one in formats)
    raise InputError(
        f"{first.where}: has none of these fields: {known}; it has {', '.join(first.fields)}. "
        "A file of questions without answers can't be evaluated"
    )


def _name(path: Path) -> str:
    """Return a data set's name: its file's, without what says how it is written."""
    name = path.name.removesuffix(GZIP)
    return name.removesuffix(Path(name).suffix)
