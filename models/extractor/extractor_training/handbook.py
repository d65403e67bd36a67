"""Questions about technical documentation, written by hand as users of manuals ask.

`handbook_questions.jsonl` holds the questions, their answers and where each passage begins. The
passages themselves are cut from what `help()` and `--help` print on this machine; a question whose
passage isn't found there is left out.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from heddle.evals.manuals.reference_page import reference_page

from .answer_spans import holds_answer
from .rows import Passage, Row
from .word_index import WordIndex

SOURCE = "handbook"
QUESTIONS = Path(__file__).with_name("handbook_questions.jsonl")
NEGATIVES_MAX = 6
_SEARCHED = 16
_COMMAND = "command-"
_TIMEOUT_S = 60


def handbook_rows() -> list[tuple[Row, tuple[Passage, ...]]]:
    """Rows with the passages of the handbook that a search finds and that don't answer."""
    rows = list(_rows())
    passages = {row.passage.key: row.passage for row in rows}
    index = WordIndex(list(passages.values()), [row.question for row in rows])
    return [(row, _negatives(row, index)) for row in rows]


def _rows() -> Iterator[Row]:
    lines = QUESTIONS.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        given = json.loads(line)
        text = _page(given["page"], tuple(given["command"]))
        start = _start(text, given)
        if start < 0:
            continue
        passage_text = text[start : start + given["chars"]]
        place = passage_text.find(given["answer"])
        key = f"{SOURCE}/{given['page']}/{start}"
        passage = Passage(key, given["title"], passage_text)
        span = place, place + len(given["answer"])
        answers = (given["answer"],)
        yield Row(f"{key}/{number}", SOURCE, given["question"], answers, passage, (span,))


def _start(text: str, given: dict[str, Any]) -> int:
    """Where the passage begins that holds the answer; -1 where there is none."""
    start = text.find(given["begins"])
    while start >= 0 and given["answer"] not in text[start : start + given["chars"]]:
        start = text.find(given["begins"], start + 1)
    return start


def _negatives(row: Row, index: WordIndex) -> tuple[Passage, ...]:
    return tuple(
        passage
        for passage in index.best(row.question, _SEARCHED)
        if passage.key != row.passage.key and not holds_answer(passage.text, row.answers)
    )[:NEGATIVES_MAX]


@cache
def _page(name: str, command: tuple[str, ...]) -> str:
    """The text of a page; "" where this machine doesn't have it."""
    if command:
        return _printed(command)
    try:
        page = reference_page(name.removesuffix(".md"))
    except Exception:  # importing some modules fails in their own way
        return ""
    return "" if page is None else page.text


def _printed(command: tuple[str, ...]) -> str:
    beside = Path(sys.executable).parent  # the commands of this environment's packages
    environment = {"COLUMNS": "80", "PATH": f"{beside}:/usr/bin:/bin", "NO_COLOR": "1"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, env=environment
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout or done.stderr
