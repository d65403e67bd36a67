"""A primitive and its configuration. (Teola §4.1)"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from heddle.core.kv_reuse import PrimedWith
from heddle.core.payloads import NO_PAUSE, Pause, Sampling, TextRole
from heddle.core.primitives import PrimitiveKind
from heddle.core.search_scope import Where
from heddle.core.system_text import SystemText

Span = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class Read:
    """Read a value of the object store by key.

    `item` picks one item of a list value; in a Condition's state, the items from there on. `span`
    picks the items [first, stop) of passages or of a list; None as the stop = to its end.
    """

    key: str
    item: int | None = None
    span: Span | None = None


Part = str | Read
ShownPart = Part | SystemText
"""A piece of a prompt."""


@dataclass(frozen=True, slots=True)
class EmbedConfig:
    """Embed one text made of parts, or the texts of a single part that is a list."""

    parts: tuple[Part, ...]
    role: TextRole = TextRole.PLAIN


@dataclass(frozen=True, slots=True)
class OwnPassages:
    """The keys of passages that a request brought, and of their vectors."""

    passages: str
    vectors: str


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """Search for the vectors of key `vectors`; a generation under way may wait for the hits.

    Only documents that fit `where` are found. With `words`, the parts of the query's text, the best
    passages by words are found besides and the two rankings fused. `each`: `topk` passages of each
    query, one query after the other, where there are several; else those nearest to any of them.
    `within`: the request's own passages, which are searched instead of the corpus.
    """

    vectors: str
    topk: int
    nprobe: int | None
    while_decoding: bool = False
    where: Where = ()
    words: tuple[Part, ...] = ()
    topm: int | None = None
    each: bool = False
    within: OwnPassages | None = None


@dataclass(frozen=True, slots=True)
class RerankConfig:
    """Read the passages of a slot with a query, and keep the `keep` best.

    `passages` None: nothing has written the slot, so there are none.
    """

    query: tuple[Part, ...]
    passages: Read | None
    keep: int


@dataclass(frozen=True, slots=True)
class ExtractConfig:
    """Quote the answer to a question from the passages of a slot, `quotes_max` times at most.

    `passages` None: nothing has written the slot, so there are none.
    """

    question: tuple[Part, ...]
    passages: Read | None
    quotes_max: int


@dataclass(frozen=True, slots=True)
class IngestConfig:
    """Store the vectors of key `vectors` for the chunk ids of key `chunk_ids`."""

    vectors: str
    chunk_ids: str


@dataclass(frozen=True, slots=True)
class PrimeConfig:
    """Store the KV of the passage of key `passage`, computed behind a prompt's prefix.

    `neighbours_max` of the passages of the keys `near` stand between the two, the first of them
    next to the passage. `primed_with` says which passages these are.
    """

    prefix: str
    passage: str
    near: tuple[str, ...]
    neighbours_max: int
    primed_with: PrimedWith = PrimedWith.PRECEDING


@dataclass(frozen=True, slots=True)
class StandIn:
    """A text in the place of a generation's, where the value of `needs` is empty.

    `needs` None: nothing has written the slot, so it is.
    """

    parts: tuple[Part, ...]
    needs: Read | None


@dataclass(frozen=True, slots=True)
class PrefillConfig:
    """Prefill a prompt made of parts, and after it the tokens of key `written`, if any.

    A system text may be the first part, and no other. `is_fenced` puts a line behind the passages.
    `may_repeat`: where the node has had this very prompt in its last turn, its text is taken again.
    `if_empty`: the text that stands in for the generation's where a needed value is empty.
    """

    parts: tuple[ShownPart, ...]
    written: str | None = None
    is_fenced: bool = False
    may_repeat: bool = False
    if_empty: StandIn | None = None


@dataclass(frozen=True, slots=True)
class AskConfig:
    """Run the parts that follow a prompt's passages, ahead of the prefill of name `prefill`."""

    parts: tuple[ShownPart, ...]
    prefill: str
    is_fenced: bool = False


@dataclass(frozen=True, slots=True)
class DecodeConfig:
    """Continue the prefill of key `prefill`; `as_lines` makes the value a list of lines.

    In a generation of rounds the value is what they all have written: a Generated. `written` is
    the round before, whose tokens the prompt ends with; `pause` says where this one ends.
    `has_draft`: its text is likely to be that of its node in the last turn.
    """

    prefill: str
    sampling: Sampling
    as_lines: bool
    pause: Pause = NO_PAUSE
    written: str | None = None
    has_draft: bool = False

    @property
    def is_round(self) -> bool:
        """Whether it writes a part of a text, or may."""
        return self.pause != NO_PAUSE or self.written is not None


@dataclass(frozen=True, slots=True)
class ConditionConfig:
    """Call `choose` with a state: slot -> read of its value, lists from `Read.item` on.

    `turn` says how often the node before it has run, from 1.
    """

    choose: Callable[[Mapping[str, Any]], object]
    state: tuple[tuple[str, Read], ...]
    turn: int


@dataclass(frozen=True, slots=True)
class ResumeConfig:
    """Let a workflow function go on with the value of `key`."""

    key: str


@dataclass(frozen=True, slots=True)
class CollectConfig:
    """Join the passages of several keys, each chunk once, earlier turns first."""

    parts: tuple[Read, ...]


@dataclass(frozen=True, slots=True)
class JoinConfig:
    """Join texts, lists and passages of several keys to one list, without what is empty.

    The text of `before` stands before each text that is no passage, but for those of key `own`:
    the list of the turn before, which has it already.
    """

    parts: tuple[Read, ...]
    before: tuple[Part, ...] = ()
    own: str | None = None


class SoFar(Enum):
    """What a generation has written when it pauses."""

    ANSWER = "answer"  # all of it
    SENTENCE = "sentence"  # the sentence that it is writing


@dataclass(frozen=True, slots=True)
class RoundsConfig:
    """Decode in rounds, with a search before every round but the first; write the whole text.

    `before` and `after` are the prompt, around the place where rounds add passages: `added_max`
    of them at most. After `retrievals_max` searches a round no longer pauses.
    """

    before: tuple[ShownPart, ...]
    after: tuple[Part, ...]
    query: tuple[Part | SoFar, ...]
    topk: int
    nprobe: int | None
    topm: int | None
    where: Where
    hybrid: bool
    retrievals_max: int
    added_max: int
    sampling: Sampling
    pause: Pause
    as_lines: bool
    is_fenced: bool
    within: OwnPassages | None
    turn: int


@dataclass(frozen=True, slots=True)
class SpliceConfig:
    """Add the passages of key `hits` that a prompt doesn't show yet to the `added` ones.

    `shown` are the prompt's own parts, `added` is what earlier rounds have added, `written` what
    they wrote, `prefill` the primitive that computes the prompt with all of them. At most
    `added_max` are kept, and no more than leave room for `tokens_max` tokens of text.
    """

    shown: tuple[Read, ...]
    hits: str
    added: str | None
    written: str
    prefill: str
    added_max: int
    tokens_max: int

    @property
    def reads(self) -> tuple[str, ...]:
        """The keys that it needs, each once."""
        earlier = () if self.added is None else (self.added,)
        return tuple(
            dict.fromkeys((*(r.key for r in self.shown), self.hits, *earlier, self.written))
        )


@dataclass(frozen=True, slots=True)
class ToolConfig:
    """Call a function with the values of the reads, in order.

    See `ToolPayload` for the others.
    """

    function: Callable[..., object]
    arguments: tuple[Part, ...]
    timeout_s: float = math.inf
    batch_max: int = 1


@dataclass(frozen=True, slots=True)
class LookupConfig:
    """Look for an answer that was given to the question of key `question` before. (ADR 44)

    `vectors` is the key of the question's vector: an answer to a question with a cosine of at least
    `similarity` may be taken. None = only one to a question of equal text. `unfit` says why no
    answer of the workflow is kept; "" = they are.
    """

    question: str
    vectors: str | None = None
    similarity: float | None = None
    unfit: str = ""


Config = (
    EmbedConfig
    | SearchConfig
    | RerankConfig
    | ExtractConfig
    | IngestConfig
    | PrimeConfig
    | PrefillConfig
    | AskConfig
    | DecodeConfig
    | ConditionConfig
    | ResumeConfig
    | CollectConfig
    | JoinConfig
    | RoundsConfig
    | SpliceConfig
    | ToolConfig
    | LookupConfig
)


@dataclass(frozen=True, slots=True)
class Primitive:
    """The smallest operation that is scheduled.

    `reads` and `writes` are keys of the request's object store; every key is written once.
    """

    name: str
    kind: PrimitiveKind
    node: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    config: Config

    @property
    def turn(self) -> int:
        """How often its node has run before, in a loop."""
        return int(self.name.rsplit("@", 1)[1])
