"""What searches by words, as an engine sees it."""

from collections.abc import Callable
from typing import Protocol

from heddle.core.payloads import SearchPayload
from heddle.core.results import RankedHits


class WordSearcher(Protocol):
    """Searches by words, beside the engine's steps."""

    @property
    def has_results(self) -> bool:
        """Whether `take` has something to give."""
        ...

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from any thread, whenever `has_results` may have become true."""
        ...

    def start(self, task_id: int, payload: SearchPayload) -> None:
        """Begin to look for what shares words with the payload's texts, the best first."""
        ...

    def take(self) -> list[tuple[int, RankedHits | Exception]]:
        """Give away what searches have found since, or why they failed, by task."""
        ...

    def cancel(self, task_id: int) -> None:
        """Forget a search, if there is one; its end is not reported."""
        ...
