"""Questions about technical documentation, written by hand as users of manuals ask.

`handbook_questions.jsonl` holds the questions, their answers and where each passage begins; an
empty answer stands for a question that the passage seems to answer and doesn't. The pages are what
`help()` and `--help` print and what packages say about themselves on this machine; a question whose
page isn't found there is left out. Passages and negatives are what a user of Heddle gets: the pages
are indexed, and each question is searched for as workflow `quote` does.
"""

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import heddle
from heddle.cli.eval_manuals import indexed_folder
from heddle.core import passages
from heddle.core.cache import cache_directory
from heddle.corpus.store import CorpusStore
from heddle.evals.manuals.library import readme_page
from heddle.evals.manuals.page import ManualPage
from heddle.evals.manuals.reference_page import reference_page

from .answer_spans import Span, holds_answer
from .rows import Passage, Row

Asked = tuple[Row, tuple[Passage, ...]]

SOURCE = "handbook"
QUESTIONS = Path(__file__).with_name("handbook_questions.jsonl")
NEGATIVES_MAX = 6
_SEARCHED = 12  # passages
_NEAR = 1  # sections
_HELD_OF = 16  # pages
_HEADING = re.compile(r"^#{1,3} ", re.MULTILINE)
_README = "readme-"
_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of a page and its characters there."""

    passage: Passage
    start: int
    end: int


def kept_handbook_rows(folder: Path) -> list[Asked]:
    """The rows of a folder's runs: made by the first of them, read by the others.

    Mutates: writes the rows to the folder.
    """
    questions = hashlib.sha256(QUESTIONS.read_bytes()).hexdigest()[:16]
    kept = folder / f"handbook-{questions}.json"
    if not kept.exists():
        rows = handbook_rows()
        made = [[asdict(row), [asdict(other) for other in others]] for row, others in rows]
        folder.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(".partial")
        partial.write_text(json.dumps(made), encoding="utf-8")
        partial.replace(kept)
    read = json.loads(kept.read_text(encoding="utf-8"))
    return [(_read_row(row), tuple(Passage(**other) for other in others)) for row, others in read]


def is_held(row: Row) -> bool:
    """Whether a row measures and isn't trained on: those of about one page in sixteen."""
    page = row.key.split("/")[1]
    return hashlib.sha256(page.encode()).digest()[0] % _HELD_OF == 0


def handbook_rows() -> list[Asked]:
    """Rows with passages that the search finds and that don't answer; takes some minutes.

    Mutates: writes the pages and their index below the cache.
    """
    questions = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    pages = _pages(questions)
    corpus = indexed_folder(_folder(pages.values()))
    rows = list(_rows(questions, pages, _chunks(corpus)))
    with heddle.Server(index=corpus, generator=None) as server:
        return [(row, _negatives(row, server)) for row in rows]


def _read_row(row: dict[str, Any]) -> Row:
    passage = Passage(**row.pop("passage"))
    answers, spans = tuple(row.pop("answers")), tuple((a, b) for a, b in row.pop("spans"))
    return Row(**row, answers=answers, passage=passage, spans=spans)


def _pages(questions: Iterable[dict[str, Any]]) -> dict[str, ManualPage]:
    """What is asked about and near it, of each page that this machine has, by the page's name."""
    asked: dict[str, list[dict[str, Any]]] = {}
    for given in questions:
        asked.setdefault(given["page"], []).append(given)
    made = {name: _page(name, tuple(ours[0]["command"])) for name, ours in asked.items()}
    return {
        name: ManualPage(name, excerpt(text, [_passage_span(text, given) for given in asked[name]]))
        for name, text in made.items()
        if text
    }


def _folder(pages: Collection[ManualPage]) -> Path:
    """The folder of the pages; a page that is as it was isn't indexed again."""
    folder = cache_directory("extractor", "handbook") / "pages"
    folder.mkdir(parents=True, exist_ok=True)
    for old in {file.name for file in folder.iterdir()} - {page.name for page in pages}:
        (folder / old).unlink()
    for page in pages:
        file = folder / page.name
        if not file.exists() or file.read_text(encoding="utf-8") != page.text:
            file.write_text(page.text, encoding="utf-8")
    return folder


def _chunks(corpus: Path) -> dict[str, list[Chunk]]:
    """The passages of each page, by the page's name."""
    found: dict[str, list[Chunk]] = {}
    with CorpusStore.open(corpus) as store:
        for batch in store.vectors():
            for chunk in store.passages(batch.chunk_ids.tolist()):
                place = chunk.place
                ours = found.setdefault(Path(place.file).name, [])
                ours.append(Chunk(_passage(chunk), place.start, place.end))
    return found


def _rows(
    questions: Iterable[dict[str, Any]],
    pages: dict[str, ManualPage],
    chunks: dict[str, list[Chunk]],
) -> Iterator[Row]:
    for number, given in enumerate(questions):
        page = pages.get(given["page"])
        span = None if page is None else _span(page.text, given)
        if span is None:
            continue
        ours = chunks.get(given["page"], [])  # none where a NUL byte makes it no text
        holding = [chunk for chunk in ours if chunk.start <= span[0] and span[1] <= chunk.end]
        if not holding:  # a chunk begins within the answer
            continue
        chunk = holding[0]
        answer, passage = given["answer"], chunk.passage
        spans = ((span[0] - chunk.start, span[1] - chunk.start),) if answer else ()
        answers = (answer,) if answer else ()
        key = f"{SOURCE}/{given['page']}/{number}"
        yield Row(key, SOURCE, given["question"], answers, passage, spans)


def excerpt(page: str, spans: Iterable[Span | None]) -> str:
    """Return the sections of a page that hold one of the spans, and those near them.

    A section goes from one heading to the next. The first one stays, and so do the headings above
    what is kept. Whole pages would take hours to index.
    """
    starts = [0, *(match.start() for match in _HEADING.finditer(page) if match.start())]
    ends = [*starts[1:], len(page)]
    sections = list(zip(starts, ends, strict=True))
    kept = {0}
    for span in spans:
        if span is not None:
            held = [n for n, (a, b) in enumerate(sections) if a < span[1] and span[0] < b]
            kept.update(range(held[0] - _NEAR, held[-1] + _NEAR + 1))
    parts: list[str] = []
    above = ""
    for number, (start, end) in enumerate(sections):
        text = page[start:end]
        is_upper = not text.startswith("### ")
        if number in kept:
            parts += [text] if is_upper or not above else [above, text]
        if is_upper:
            above = "" if number in kept else text.splitlines(keepends=True)[0] + "\n"
        elif number in kept:
            above = ""
    return "".join(parts)


def _passage_span(page: str, given: dict[str, Any]) -> Span | None:
    """Where the passage stands that holds the answer; None where there is none."""
    start = page.find(given["begins"])
    while start >= 0:
        end = start + len(page[start : start + given["chars"]])
        if page.find(given["answer"], start, end) >= 0:
            return start, end
        start = page.find(given["begins"], start + 1)
    return None


def _span(page: str, given: dict[str, Any]) -> Span | None:
    """The answer's characters in its page; without an answer, a point amid the passage."""
    found = _passage_span(page, given)
    if found is None:
        return None
    middle = sum(found) // 2
    start = page.find(given["answer"], *found) if given["answer"] else middle
    return start, start + len(given["answer"])


def _negatives(row: Row, server: heddle.Server) -> tuple[Passage, ...]:
    found = server.search(row.question, topk=_SEARCHED, hybrid=True).passages
    others = [_passage(passage) for passage in found]
    return tuple(
        passage
        for passage in others
        if passage.text != row.passage.text and not holds_answer(passage.text, row.answers)
    )[:NEGATIVES_MAX]


def _passage(chunk: passages.Passage) -> Passage:
    return Passage(f"{SOURCE}/{chunk.chunk_id}", chunk.title, chunk.text)


def _page(name: str, command: tuple[str, ...]) -> str:
    """The text of a page; "" where this machine doesn't have it."""
    if command:
        return _printed(command)
    name = name.removesuffix(".md")
    try:
        about = name.removeprefix(_README)
        page = readme_page(about) if about != name else reference_page(name)
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
