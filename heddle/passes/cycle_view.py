"""What a cycle pass sees and may ask for, frozen both ways. (docs/design/architecture.md#passes)"""

from collections.abc import Mapping
from dataclasses import dataclass

from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.frames import Load
from heddle.core.payloads import Payload
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity
from heddle.costs.substage import SearchCall
from heddle.costs.throughput import ThroughputCurve

Key = tuple[int, str]
"""Names a primitive under way: its request's id and its own name."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A primitive that could run now and waits for an engine.

    Args:
        identity: whose it is, and of which node.
        primitive: its name.
        engine: where it waits.
        rows: rows that are still to be sent.
        payload: all its rows.
        cost_s: predicted time that the engine takes for the rows [s]; None = nothing measured yet.
        start_s: when the engine should reach it, on the clock of `CycleView.now_s`: behind all that
            is in flight there, as if none of that had begun, and behind what waits before it [s].
        is_untouched: none of its rows was sent, and all of them are known.
        may_approximate: its request allows approximate answers.
    """

    identity: Identity
    primitive: str
    engine: str
    rows: int
    payload: Payload
    cost_s: float | None
    start_s: float
    is_untouched: bool
    may_approximate: bool

    @property
    def key(self) -> Key:
        """What edits call it by."""
        return self.identity.request_id, self.primitive


@dataclass(frozen=True, slots=True)
class StoredKv:
    """Stored KV of chunks of which some lies on disk alone.

    Reading one of these takes `read_s` by the store's own measured times [s]; a chunk has `tokens`
    tokens. Both are means.
    """

    read_s: float
    tokens: float


@dataclass(frozen=True, slots=True)
class EngineView:
    """One engine this cycle: what waits, what runs, what its steps cost.

    `tokens` are those that the LLM tasks in flight still compute: the rest of each prompt, and one
    for each decode. `stored` is the chunk KV that it would have to read from disk, if any. `delay`
    is how much later all its calls end, taken together, for a second of work that is added.
    """

    name: str
    kinds: frozenset[PrimitiveKind]
    in_flight: int
    pending: int
    load: Load
    costs: CostSnapshot | None
    stage_s: float | None  # mean length of a whole stage (task) on this engine, measured [s]
    budget_s: float | None  # the step budget in force
    calls: tuple[SearchCall, ...] = ()  # the newest searches, after every 32 that have ended
    tokens: int = 0
    stored: StoredKv | None = None
    delay: float = 0.0

    @property
    def has_lists(self) -> bool:
        """Whether it searches inverted lists: only then it has `calls`."""
        return self.costs is not None and "lists" in self.costs.coefficients_s

    @property
    def curve(self) -> ThroughputCurve | None:
        """Its throughput by the tokens of a step; None where it computes no tokens."""
        return ThroughputCurve.of(self.costs)

    @property
    def room_per_s(self) -> float:
        """Tokens a second that it could compute beside its tasks, the paper's τ·T_max − T_curr.

        Zero or less where it is busy, where requests wait for it, or where nothing is measured.
        """
        curve = self.curve
        return 0.0 if curve is None or self.pending else curve.room_per_s(self.tokens)


@dataclass(frozen=True, slots=True)
class Provisional:
    """A prompt of `tokens` tokens as it will be if a search finds nothing better from now on.

    That has this `probability`; the search goes on for about `rest_s` [s], and then `prefill` of
    the request goes to `engine`. `win_rate` is how often guesses of this node have won by now,
    over how often they were predicted to, at most 1. The prompt shows `chunk_ids`; `looks` counts
    the looks at the search, and `looks_stable` those since the passages changed. Behind the prompt
    at most `decode_tokens` tokens can be written ahead, 0 = none.
    """

    request_id: int
    prefill: str
    engine: str
    tokens: int
    probability: float
    rest_s: float
    win_rate: float = 1.0
    chunk_ids: tuple[int, ...] = ()
    looks: int = 1
    looks_stable: int = 0
    decode_tokens: int = 0

    @property
    def key(self) -> tuple[int, str]:
        """The prefill of the request, which has one guess at a time."""
        return self.request_id, self.prefill


@dataclass(frozen=True, slots=True)
class CycleView:
    """The wavefront (primitives that can run now and wait) and the engines, at `now_s`.

    The wavefront of an engine stands in the order in which its primitives would be sent.

    `provisional` are the prompts that searches under way have brought forth since the last cycle;
    where it `speculates`, partial hits are worth a look between the steps of a search. `stored` are
    those of requests that take chunks' KV from a store: they aren't computed ahead, but what lies
    on disk of it can be read ahead, and was not yet for these passages. They are made only when
    they are chosen, so their `tokens` are 0.
    """

    now_s: float
    wavefront: tuple[Ready, ...]
    engines: Mapping[str, EngineView]
    provisional: tuple[Provisional, ...] = ()
    speculates: bool = False
    stored: tuple[Provisional, ...] = ()


@dataclass(frozen=True, slots=True)
class SetBudget:
    """Edit: cut an engine's work into steps of this length. `gain_s` is the predicted gain."""

    engine: str
    budget_s: float  # inf: no limit
    gain_s: float


@dataclass(frozen=True, slots=True)
class Reorder:
    """Edit: of each class that waits for an engine, send these first, in this order."""

    engine: str
    order: tuple[Key, ...]
    gain_s: float


@dataclass(frozen=True, slots=True)
class AddEdge:
    """Edit: let `consumer` wait until `producer` has ended; both wait and are untouched."""

    request_id: int
    producer: str
    consumer: str
    gain_s: float


@dataclass(frozen=True, slots=True)
class Replace:
    """Edit: send another payload, of the same type and as many rows, for an untouched primitive.

    Only for requests that allow approximate answers: a payload decides what is answered.
    """

    request_id: int
    primitive: str
    payload: Payload
    gain_s: float


@dataclass(frozen=True, slots=True)
class Speculate:
    """Edit: compute a provisional prompt ahead. `gain_s` is the predicted gain."""

    provisional: Provisional
    gain_s: float


@dataclass(frozen=True, slots=True)
class SpeculateDecode:
    """Edit: write on behind a prompt that is computed ahead. `gain_s` is the predicted gain.

    It acts where the prompt's `Speculate` came before it in the same cycle.
    """

    provisional: Provisional
    gain_s: float


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Edit: read what is stored of a prompt's passages from disk. `gain_s` is the predicted gain.

    Of a prompt in `CycleView.stored`.
    """

    provisional: Provisional
    gain_s: float


Edit = SetBudget | Reorder | AddEdge | Replace | Speculate | SpeculateDecode | Prefetch
