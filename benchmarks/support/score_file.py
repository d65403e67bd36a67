"""Scores of a long table, kept as they come, so that a stopped run goes on where it was."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Score:
    """How one question went in one cell of the table."""

    cell: str
    question: str
    kind: str
    f1: float
    exact_match: float
    answer: str
    prompt_tokens: int
    tokens_computed: int
    tokens_surveyed: int


class ScoreFile:
    """A file of JSON lines, one for each score; without a path they are kept in memory only.

    A line that a rude end has torn is left out: that question is answered again.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._scores: dict[str, dict[str, Score]] = {}
        for score in _read(path):
            self._keep(score)

    def of(self, cell: str) -> Mapping[str, Score]:
        """Return the scores of a cell by the question's id."""
        return self._scores.get(cell, {})

    def add(self, score: Score) -> None:
        """Keep a score."""
        self._keep(score)
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as lines:
                lines.write("\n" + json.dumps(asdict(score)))

    def _keep(self, score: Score) -> None:
        self._scores.setdefault(score.cell, {})[score.question] = score


def _read(path: Path | None) -> Iterator[Score]:
    if path is None or not path.is_file():
        return
    # Each line begins with its line break: what follows a torn one stands apart from it.
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            yield Score(**json.loads(line))
        except (ValueError, TypeError):
            continue
