"""A lane's reports to the runtime: one frame a step. (docs/design/architecture.md)

These are NamedTuples: every step makes and pickles some, and a frozen dataclass takes about three
times as long to make.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.results import RecallEstimate, Result

NO_COUNTS: Final[Mapping[str, float]] = {}  # no proxy: frames are pickled


class Progress(NamedTuple):
    """A partial result: new tokens and their text, or the newest partial hits.

    Shapes: labels [n, k] int64 and distances [n, k] float32, as in Hits; None for tokens.
    `fraction` is the share of the task that is done, in [0, 1], where it is known. `probability` is
    that of the hits being the final ones already, in their order; 0 = unknown. A search that only
    waits for its search by words reports a fraction of 1, without hits.
    """

    task_id: int
    token_ids: tuple[int, ...] = ()
    text: str = ""
    labels: NDArray[np.int64] | None = None
    distances: NDArray[np.float32] | None = None
    fraction: float = 0.0
    probability: float = 0.0


class Done(NamedTuple):
    """Terminal: the task's result."""

    task_id: int
    result: Result


class Failed(NamedTuple):
    """Terminal: the task failed; `is_input` means the caller's input was refused.

    `is_final` means that the engine has tried again by itself, or that trying again is no use;
    `is_full` that the disk had no room for a result; `is_away` that the corpus can't be reached.
    """

    task_id: int
    message: str
    is_input: bool = False
    is_final: bool = False
    is_full: bool = False
    is_away: bool = False


class Cancelled(NamedTuple):
    """Terminal: the task was cancelled and holds nothing any more."""

    task_id: int


Event = Progress | Done | Failed | Cancelled
TERMINAL = (Done, Failed, Cancelled)


class Load(NamedTuple):
    """How full a lane is; `bytes_free` counts KV pages or buffers, -1 where it has no meaning."""

    running: int = 0
    waiting: int = 0
    bytes_free: int = -1


class Frame(NamedTuple):
    """One step of one engine.

    `seconds` is how long the step took on the lane's own clock; `features` are the counts that
    the cost model reads (tokens, lists, vectors). `number` counts a lane's frames from 1 in each
    epoch: the host sets it, the runtime notices a lost or repeated frame by it; 0 = not counted.
    `recall` is what an index's searches find by now, None = not known. `notes` says what
    somebody has to mend, such as a full disk; `gauges` is its state by the names of `core.gauges`.
    It was sent `age_s` after the step's end, where the host has sent several frames together [s].
    """

    lane: str
    epoch: int
    seconds: float
    events: tuple[Event, ...]
    features: Mapping[str, float] = NO_COUNTS
    load: Load = Load()
    costs: CostSnapshot | None = None
    has_work: bool = False
    number: int = 0
    recall: RecallEstimate | None = None
    notes: tuple[str, ...] = ()
    gauges: Mapping[str, float] = NO_COUNTS
    age_s: float = 0.0
