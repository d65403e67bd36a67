"""Rows out of the developer data: Wikipedia questions, hops of MuSiQue, reviews and posts."""

import gzip
import hashlib
import json
from collections.abc import Iterator
from typing import Any

from heddle.evals.data_folder import data_file

from .answer_spans import Span, answer_spans
from .rows import Passage, Row

SQUADSHIFTS = "squadshifts_new_wiki"
MUSIQUE = "musique_hop"


def records(name: str) -> Iterator[dict[str, Any]]:
    """Yield the records of a data file, such as "wiki_single"."""
    with gzip.open(data_file(name), "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def corpus_passages() -> dict[str, Passage]:
    """The 46,000 passages that wiki questions are asked about, by id."""
    return {r["id"]: Passage(r["id"], r["title"], r["text"]) for r in records("wiki_corpus")}


def wiki_rows(corpus: dict[str, Passage]) -> list[Row]:
    """All rows of wiki_single in file order; also those that are held for tests."""
    return [
        row_of(r["id"], r["dataset"], r["question"], r["answers"], corpus[r["gold"][0]])
        for r in records("wiki_single")
    ]


def gold_keys() -> dict[str, tuple[str, ...]]:
    """The ids of all passages that answer a wiki question, by the question's id."""
    return {r["id"]: tuple(r["gold"]) for r in records("wiki_single")}


def musique_rows() -> Iterator[Row]:
    """Yield the hops of MuSiQue's questions that make sense alone."""
    for record in records("wiki_multihop"):
        if record["dataset"] != "musique":
            continue
        passages = {p["id"]: Passage(p["id"], p["title"], p["text"]) for p in record["passages"]}
        for place, hop in enumerate(record["hops"]):
            question = hop.get("question") or ""
            passage = passages.get(hop.get("passage") or hop.get("passage_id") or hop.get("id"))
            # "#1" stands for the answer of an earlier hop, ">>" joins a thing and its attribute
            if question and passage and "#" not in question and ">>" not in question:
                key = f"{record['id']}/{place}"
                yield row_of(key, MUSIQUE, question, [hop["answer"]], passage)


def reading_rows() -> Iterator[Row]:
    """Yield the rows of reading_train, whose spans are given by the data set."""
    for record in records("reading_train"):
        text = record["passage"]
        key = "reading/" + hashlib.sha256(text.encode()).hexdigest()[:16]
        marked = record["answers"]
        spans = {_trimmed(text, a["start"], a["start"] + len(a["text"])) for a in marked}
        answers = tuple(dict.fromkeys(a["text"] for a in marked))
        passage = Passage(key, record["title"] or "", text)
        spans = {(start, end) for start, end in spans if start < end}
        yield Row(
            record["id"],
            record["dataset"],
            record["question"],
            answers,
            passage,
            tuple(sorted(spans)),
        )


def row_of(key: str, source: str, question: str, answers: list[str], passage: Passage) -> Row:
    """A row whose spans are all places of its accepted answers."""
    spans = tuple(answer_spans(passage.text, answers))
    return Row(key, source, question, tuple(answers), passage, spans)


def _trimmed(text: str, start: int, end: int) -> Span:
    """A span without the blanks around it."""
    part = text[start:end]
    lead = len(part) - len(part.lstrip())
    return start + lead, start + max(lead, len(part.rstrip()))
