"""A search that the corpus's database carries out, from admission to its hits. Pure."""

from dataclasses import dataclass

from heddle.core.results import Hits, RecallEstimate
from heddle.engines.vector.search import RunningSearch


@dataclass(slots=True, eq=False)
class DatabaseSearch(RunningSearch):
    """One search task; `arrival` orders those of a class, `searched_by` names index and effort."""

    arrival: int = 0
    searched_by: str = ""

    @property
    def urgency(self) -> tuple[int, int]:
        """What orders searches that wait: class, then arrival."""
        return self.priority, self.arrival

    def hits(self, notes: tuple[str, ...] = (), recall: RecallEstimate | None = None) -> Hits:
        """Return the final result, with the notes and the recall of its index."""
        distances, labels = self.found or self.nothing()
        return Hits(
            labels,
            distances,
            revision=self.revision,
            notes=notes,
            by_words=self.by_words,
            recall=recall,
            searched_by=self.searched_by,
        )
