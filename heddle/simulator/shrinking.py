"""From a seed that breaks a rule to the fewest requests and faults that still break one.

Delta debugging: halves are left out, then quarters, down to single ones, as long as a rule breaks
without them. (Zeller and Hildebrandt 2002)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from heddle.simulator.simulation import Scenario, attempt

TRIES_MAX: Final = 120
Item = TypeVar("Item")


@dataclass(slots=True)
class Shrinker:
    """Leaves requests and faults of a scenario out while a rule still breaks.

    Any broken rule counts, also one that the whole scenario didn't break. Where no try is left,
    the smallest scenario so far is the result.

    Mutates: `tries_left`, at each simulation.
    """

    tries_left: int = TRIES_MAX

    def shrunk(self, scenario: Scenario) -> Scenario:
        """Return the smallest scenario found; `scenario` breaks a rule."""
        found = self._with_fewer_requests(scenario)
        found = self._with_fewer_strikes(found)
        return self._with_fewer_requests(found)

    def _with_fewer_requests(self, scenario: Scenario) -> Scenario:
        numbers = sorted(scenario.numbers_kept)
        fewest = self._fewest(
            numbers, lambda kept: replace(scenario, requests_kept=frozenset(kept))
        )
        return replace(scenario, requests_kept=frozenset(fewest))

    def _with_fewer_strikes(self, scenario: Scenario) -> Scenario:
        strikes = sorted(attempt(scenario).world.strikes())
        fewest = self._fewest(strikes, lambda kept: replace(scenario, strikes=frozenset(kept)))
        return replace(scenario, strikes=frozenset(fewest))

    def _fewest(
        self, items: Sequence[Item], with_only: Callable[[Sequence[Item]], Scenario]
    ) -> Sequence[Item]:
        size = len(items)
        while size:
            start = 0
            while start < len(items):
                fewer = [*items[:start], *items[start + size :]]
                if self._breaks(with_only(fewer)):
                    items = fewer
                else:
                    start += size
            size //= 2
        return items

    def _breaks(self, scenario: Scenario) -> bool:
        if not self.tries_left:
            return False
        self.tries_left -= 1
        return bool(attempt(scenario).problems)
