"""The corpora of the workflow benchmarks: light, heavy, and the popular days of questions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.coscheduling.bed import Bed
from benchmarks.coscheduling.heavy_index import default_kind_index, heavy_index
from benchmarks.coscheduling.journal import Journal
from benchmarks.coscheduling.popular_days import TRACE, Days, popular_days, requests_of
from benchmarks.coscheduling.primed_corpus import PrimedCorpus, primed_corpus
from benchmarks.coscheduling.sizes import Size
from benchmarks.support.data import rows
from benchmarks.support.wiki_index import WikiIndex, wiki_index

LIGHT = "light"
HEAVY = "heavy"
HEAVY_DEFAULT = "heavy default"


@dataclass(frozen=True, slots=True)
class Corpora:
    """What is asked where.

    Args:
        wiki: the passages.
        size: how much is measured.
        seed: of every draw.
        questions: of all data sets about them.
        accepted: the right answers of each question that has one passage.
        days: the popular days.
    """

    wiki: WikiIndex
    size: Size
    seed: int
    questions: Sequence[str]
    accepted: Mapping[str, Sequence[str]]
    days: Days

    @classmethod
    def of(cls, quick: bool, size: Size, seed: int) -> "Corpora":
        """Read the questions, and make the index of the passages first where it isn't there."""
        wiki = wiki_index(quick)
        single = list(rows(wiki.single))
        about: dict[str, list[str]] = {}
        for row in single:
            about.setdefault(row["gold"][0], []).append(row["question"])
        return cls(
            wiki,
            size,
            seed,
            [row["question"] for row in (*single, *rows(wiki.multihop))],
            {row["question"]: row["answers"] for row in single},
            popular_days(requests_of(rows(TRACE)), about, seed),
        )

    def bed(self, name: str, journal: Journal) -> Bed:
        """Return a corpus; its index is made first where it isn't there."""
        size = self.size
        return Bed(
            name,
            self.wiki.directory,
            self._index(name),
            size.vectors,
            self.days.asked if name == LIGHT else self.questions,
            self.seed,
            size.alone,
            size.settings,
            size.calibrating,
            journal,
        )

    def primed(self) -> PrimedCorpus:
        """Return the corpus with stored chunk KV, filled first where it isn't there."""
        return primed_corpus(self.wiki, self.days.before, self.size.primed)

    def _index(self, name: str) -> Path | None:
        if name == LIGHT:
            return None
        heavy = heavy_index(self.wiki, self.size.vectors, self.seed)
        return default_kind_index(heavy) if name == HEAVY_DEFAULT else heavy
