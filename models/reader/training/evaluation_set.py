"""The evaluation set `reader-notes`: held-back questions by kind, generated from a seed.

Names, words, years and numbers come from the held-out split, so none of them was trained on.
Coreference questions ask for facts whose passage neither names the subject nor carries a title
that does.

    python -m training.evaluation_set --out heddle_reader/reader-notes.jsonl.gz
"""

import argparse
import gzip
import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .fillings import Fillings, Split
from .notes import Notes, NotesStyle
from .prompts import ANSWER, render_passage
from .questions import Kind, Question, ask
from .relations import ALL_PLAIN
from .samples import Recipe, draw_notes

SEED = 2026
_STYLE = NotesStyle(
    pronoun_rate=0.7,
    split_rate=0.6,
    anonymous_rate=0.8,
    blank_title_rate=0.5,
    filler_rate=0.15,
    joined_rate=0.2,
    aside_rate=0.2,
)
_RECIPE = Recipe((2, 9), (2, 6), _STYLE, weights={}, wordings=ALL_PLAIN)
_MAX_PASSAGES = 16
_DRAWS = 12  # questions drawn from one set of notes until one fits


@dataclass(frozen=True, slots=True)
class EvaluationItem:
    """passages: (title, text) in reading order; answer: the one accepted answer."""

    kind: Kind
    passages: tuple[tuple[str, str], ...]
    question: str
    answer: str

    def prompt(self) -> str:
        docs = "".join(render_passage(title, text) for title, text in self.passages)
        return ANSWER.format(docs=docs, query=self.question)

    def as_json(self) -> str:
        return json.dumps(
            {
                "kind": self.kind.value,
                "passages": [{"title": t, "text": x} for t, x in self.passages],
                "question": self.question,
                "answers": [self.answer],
            },
            ensure_ascii=False,
        )


def _fits(notes: Notes, question: Question) -> bool:
    if question.kind is not Kind.COREFERENCE:
        return True
    stated = [p for p in notes.passages if question.evidence[0] in p.facts.values()]
    return all(p.anonymous and not p.titled for p in stated)


def _draw_item(kind: Kind, rng: random.Random) -> EvaluationItem:
    fillings = Fillings(rng, Split.HELD_OUT)
    while True:
        notes = draw_notes(_RECIPE, fillings, rng)
        if len(notes.passages) > _MAX_PASSAGES:
            continue
        questions = ask(notes, {kind: 1.0}, _DRAWS, fillings, rng)
        fitting = [q for q in questions if q.kind is kind and _fits(notes, q)]
        if fitting:
            passages = tuple((p.title, p.text) for p in notes.passages)
            return EvaluationItem(kind, passages, fitting[0].text, fitting[0].answer)


def evaluation_items(n_questions: int = 1000, seed: int = SEED) -> Iterator[EvaluationItem]:
    """The items in a fixed order, kinds in turn; the same for the same seed."""
    kinds = list(Kind)
    for i in range(n_questions):
        yield _draw_item(kinds[i % len(kinds)], random.Random(seed * 1_000_003 + i))


def write_items(path: Path, items: Iterable[EvaluationItem]) -> None:
    """Write JSON lines, compressed; equal items give equal bytes."""
    lines = "".join(item.as_json() + "\n" for item in items)
    path.write_bytes(gzip.compress(lines.encode(), mtime=0))


def main() -> None:
    parser = argparse.ArgumentParser(description="Write reader-notes as compressed JSON lines.")
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path, required=True, help="FILE.jsonl.gz")
    args = parser.parse_args()
    write_items(args.out, evaluation_items(args.questions, args.seed))


if __name__ == "__main__":
    main()
