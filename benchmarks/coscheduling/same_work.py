"""Whether contenders did the same work: every generation equal, or parted at a near-tie."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.coscheduling.blocks import Contender
from benchmarks.coscheduling.generations import differences, unmatched
from benchmarks.coscheduling.near_ties import near_ties
from heddle.app.models.model_source import model_directory
from heddle.core.errors import InternalError


@dataclass(frozen=True, slots=True)
class SameWork:
    """How many different prompts there were, and how many outputs part at a near-tie."""

    generations: int
    near_ties: int


def same_work(own: Contender, others: Sequence[Contender]) -> SameWork:
    """Compare what contenders have generated from which prompts.

    Raises:
        InternalError: they did not do the same work.
    """
    found = [one for other in others for one in differences(own.generations, other.generations)]
    lacking = {other.name: unmatched(own.generations, other.generations) for other in others}
    ties = near_ties(found, model_directory("reader"))
    if not all(ties) or (any(lacking.values()) and not ties):
        raise InternalError(
            f"the contenders did not do the same work: {len(found)} generations differ, "
            f"{sum(ties)} of them at a near-tie, and prompts are one's only: {lacking}"
        )
    return SameWork(len(own.generations.outputs), sum(ties))
