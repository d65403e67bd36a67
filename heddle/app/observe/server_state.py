"""What a server knows of itself at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from heddle.app.observe.tally import Outcome, Tally
from heddle.core.frames import Frame
from heddle.passes.runner import CycleCount
from heddle.runtime.answer_cache import AnswerCacheState
from heddle.runtime.counters import Counters
from heddle.runtime.supervision import LaneHealth

NO_ANSWERS: Final = AnswerCacheState(0, 0, {})


@dataclass(frozen=True, slots=True)
class EngineState:
    """An engine: primitives that wait for it, tasks that it has, the newest that it told.

    `credits_used` counts the rows that it was sent, `tasks_by_lane` the tasks of each lane; it is
    empty where the engine is one lane.
    """

    queued: int
    in_flight: int
    last: Frame | None
    credits_used: int = 0
    tasks_by_lane: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EmbeddingLaneState:
    """A lane of the embedding service by its books.

    It holds `queries`. A step of it takes `latency_intercept_s` and `token_s` for each token [s].
    Predictions are multiplied by `margin`, and by `stretch` after late answers. `outlier_share` of
    the timed steps fits no cost. `refits` counts how often the cost was fitted anew, by reason.
    """

    queries: int
    latency_intercept_s: float
    token_s: float
    margin: float
    stretch: float
    outlier_share: float
    refits: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class EmbeddingState:
    """The embedding service: how embeddings ended, texts that wait for a lane, the lanes."""

    outcomes: Mapping[Outcome, int]
    held: int
    lanes: Mapping[str, EmbeddingLaneState]


@dataclass(frozen=True, slots=True)
class ReprimingState:
    """Chunks that are primed once requests have met them without primed KV.

    `waiting` counts the chunks that wait and the one under way. The other counts start with the
    server; `dropped` are chunks that met a full queue. `problem` says why no chunk is primed now;
    it is empty where priming works.
    """

    waiting: int
    primed: int
    failed: int
    dropped: int
    problem: str


@dataclass(frozen=True, slots=True)
class MemoryState:
    """The split of the memory, and the one that is advised; the present one, where none is better.

    `kv_bytes` are an LLM lane's KV pages, `requests_per_s` what they are predicted to serve of
    requests with `generations` and `searches` each. These are counted over the last ten minutes; at
    first they are those that the split was planned for. `advice` is empty where the present split
    stays.
    """

    kv_bytes: int
    requests_per_s: float
    generations: float
    searches: float
    advised_kv_bytes: int
    advised_requests_per_s: float
    advice: str


@dataclass(frozen=True, slots=True)
class CorpusState:
    """The corpus: its name, and how many chunks are known to be damaged by now.

    `scrubbed_chunks` counts what the background check has read so far; `problem` says why it can't
    read.
    """

    name: str
    damaged_chunks: int = 0
    scrubbed_chunks: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ServerState:
    """A server: engines and lanes by name, `requests` in flight, what was counted so far.

    `leases` counts the prompts whose KV the LLM's lanes keep for a generation.
    `answers` are kept to be given again. `embedding`, `corpus` and `corpus_revision` are None where
    there is no corpus, `repriming` where nothing is primed anew, `memory` where no memory profile
    splits it. `roles` has the lanes of each role, by its name. A request that is refused now may be
    let in after `predicted_wait_s`. `failed_passes` are left out, by name. `cycle_passes` counts
    what each pass of the scheduling cycles has done, by name. `traces` counts spans by what has
    become of them; None = none are made.
    """

    engines: Mapping[str, EngineState]
    lanes: Mapping[str, LaneHealth]
    requests: int
    tally: Tally
    counters: Counters
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    embedding: EmbeddingState | None = None
    corpus: CorpusState | None = None
    corpus_revision: int | None = None
    repriming: ReprimingState | None = None
    memory: MemoryState | None = None
    answers: AnswerCacheState = NO_ANSWERS
    predicted_wait_s: float = 0.0
    failed_passes: tuple[str, ...] = ()
    cycle_passes: Mapping[str, CycleCount] = field(default_factory=dict)
    traces: Mapping[str, int] | None = None
    leases: int = 0
