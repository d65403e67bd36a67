"""Who schedules on the virtual clock: ways to run the same server.

`asyncio_fifo` and `asyncio_same` are programs written by hand. On the virtual clock they are the
runtime with every pass but `prune_dependencies` left out, which sends the same calls at the same
moments as such a program:

* A region is lowered to the chain of calls that `benchmarks/contenders/hand_written.py` awaits: one
  embedding of all queries, one search of all rows, a prompt with its decode riding along.
* A call is sent in the cycle in which its last input has arrived; no credit binds here, so
  `blind` admission sends it at once, in the order of arrival, as an `await` that returns does.
* Calls that need nothing of each other begin together: pruning stands for the programmer's
  `gather`.
* Without `split_substages` no lane is steered; without the other passes nothing is sent early,
  twice, in parts or not at all.

What differs between contenders is then the engines' order and the passes, nothing else.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from benchmarks.virtual.server import Way
from heddle.core.call_order import FirstServed
from heddle.passes.runner import CYCLE_PASSES, GRAPH_PASSES
from heddle.runtime.batching import FIRST_SERVED

GATHER: Final = "prune_dependencies"
PASSES: Final = (*(one.name for one in GRAPH_PASSES), *(one.name for one in CYCLE_PASSES))
"""Those of REQUESTED_PASSES act only for requests that ask for them: none does here."""
LEVERS: Final = tuple(name for name in PASSES if name != GATHER)
"""What can be switched off, in the order of the runner; passes that come later appear here."""
SPECULATIVE: Final = frozenset(name for name in LEVERS if name.startswith("speculate"))
"""These act only where the runtime may speculate, as a server's does by default."""
SHORTEST: Final = "shortest_first"
ARRIVAL: Final = "blind"
FIFO: Final = "asyncio_fifo"
SAME: Final = "asyncio_same"
OWN: Final = "heddle"

WAYS: Final[Mapping[str, Way]] = {
    FIFO: Way(ARRIVAL, frozenset(LEVERS)),
    SAME: Way(SHORTEST, frozenset(LEVERS)),
    OWN: Way(SHORTEST, speculates=True),
}

ORDERS: Final = tuple(
    next(name for name, served in FIRST_SERVED.items() if served is first)
    for first in FirstServed
    if first is not FIRST_SERVED[SHORTEST]
)
"""The other orders of the engines, each by the first policy that has it."""


def with_lever_off(name: str) -> Way:
    """Return Heddle's way without one lever."""
    return replace(WAYS[OWN], disabled=frozenset({name}))


def with_lever_alone(name: str) -> Way:
    """Return the way of `asyncio_same` with one lever."""
    return Way(SHORTEST, frozenset(LEVERS) - {name}, speculates=name in SPECULATIVE)


def with_order(batching: str) -> Way:
    """Return Heddle's way with another order."""
    return replace(WAYS[OWN], batching=batching)
