"""Whether contenders did the same work: every generation equal, or parted at a near-tie."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.coscheduling.blocks import Contender
from benchmarks.coscheduling.generations import differences, lacking
from benchmarks.coscheduling.near_ties import near_ties
from heddle.app.models.model_source import model_directory
from heddle.core.errors import InternalError


@dataclass(frozen=True, slots=True)
class SameWork:
    """How many different prompts there were, and how many outputs part at a near-tie."""

    generations: int
    near_ties: int


def same_work(
    own: Contender, others: Sequence[Contender], some: Sequence[Contender] = ()
) -> SameWork:
    """Compare what contenders have generated from which prompts.

    Args:
        own: whom the others are compared with.
        others: ran the same blocks.
        some: ran some of these blocks.

    Raises:
        InternalError: they did not do the same work.
    """
    everyone = [*others, *some]
    found = [one for each in everyone for one in differences(own.generations, each.generations)]
    only = {each.name: lacking(own.generations, each.generations) for each in everyone}
    only[own.name] = sum(lacking(each.generations, own.generations) for each in others)
    ties = near_ties(found, model_directory("reader"))
    if not all(ties) or (any(only.values()) and not ties):
        raise InternalError(
            f"the contenders did not do the same work: {len(found)} generations differ, "
            f"{sum(ties)} of them at a near-tie, and prompts are one's only: {only}"
        )
    return SameWork(len(own.generations.outputs), sum(ties))
