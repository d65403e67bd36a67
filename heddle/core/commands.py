"""Commands from the runtime to a lane; nothing else crosses. (docs/design/architecture.md)

NamedTuples, because making them is a good part of the runtime's own work. (frames.py)
"""

from enum import Enum
from typing import Final, NamedTuple

from heddle.core.payloads import PrefillPayload
from heddle.core.results import KvHandle
from heddle.core.tasks import Priority, Task

TURN_S: Final = 0.02
"""The longest step that engines of one lane are steered to: the others wait for its end, and the
runtime, which steers each engine by its own tasks, knows nothing of them. (ADR 41)"""


class Admit(NamedTuple):
    """Start a task; report Progress every `report_every` units (tokens, or scanned lists).

    0 = never. The first token of a decode is reported beside those.
    """

    task: Task
    report_every: int = 1


class AmendMode(Enum):
    """What an Amend does to a segment of a prompt."""

    FILL = "fill"  # a pending segment gets its tokens
    APPEND = "append"  # a new segment at the end
    REPLACE = "replace"  # another content: what was computed from it on is dropped


class Amend(NamedTuple):
    """Change one segment of a prefill that was admitted earlier.

    The runtime sends none yet: the pass `split_prefill` will (Teola §4.2). Engines serve it, and
    the simulator and tests drive it.
    """

    task_id: int
    segment_index: int
    token_ids: tuple[int, ...]
    mode: AmendMode


class KvSent(NamedTuple):
    """How long prefill lanes sent KV, and stepped in all, since the last such message."""

    sending_s: float
    stepping_s: float


class Steer(NamedTuple):
    """Change how the lane steps: its time budget for one step, or a task's priority.

    None leaves a value as it is. `kv_sent` reports to a vector pool how busy the link to the
    decode lanes is. (Trinity §3.3)
    """

    budget_s: float | None = None
    task_id: int | None = None
    priority: Priority | None = None
    kv_sent: KvSent | None = None

    def at_most(self, budget_s: float) -> "Steer":
        """Return it with a time budget of no more than this [s]."""
        if self.budget_s is None or self.budget_s <= budget_s:
            return self
        return self._replace(budget_s=budget_s)


class LoadKv(NamedTuple):
    """Read what is stored of a prompt's passages from disk, and keep it in host memory for it.

    The prompt is not begun, and nothing answers. An engine without such a store, or without room,
    leaves it. The prompt itself names the `load_id` when it comes; another `LoadKv` of that id
    takes the place of this one.
    """

    load_id: int
    prompt: PrefillPayload


class LeaveKv(NamedTuple):
    """Keep nothing for that prompt any more, and read nothing more for it; unknown ids are ignored.

    Sent for each `load_id` when its request ends.
    """

    load_id: int


class Cancel(NamedTuple):
    """End a task; the lane answers with its one terminal event."""

    task_id: int


class Release(NamedTuple):
    """Give a lease back; unknown or void handles are ignored."""

    handle: KvHandle


Command = Admit | Amend | Steer | LoadKv | LeaveKv | Cancel | Release
