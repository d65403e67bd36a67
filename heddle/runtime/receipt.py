"""What was done for a request: counts, times, degradations. Every answer carries one."""

from dataclasses import dataclass, field, replace
from enum import Enum
from operator import attrgetter
from typing import Final

from heddle.core.counts import SearchCounts, Unit, counter, counters
from heddle.core.degradation import Degradation, DegradationKind
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import (
    FinishReason,
    FusedKv,
    KvTransfer,
    Prefilled,
    RecallEstimate,
    RemoteRun,
)
from heddle.core.tasks import Optimizations


@dataclass(slots=True)  # a frozen one takes longer to make
class Span:
    """The times of one primitive, from the request's arrival [s]; nothing changes it.

    Args:
        name: the primitive's, with the turn of its node.
        node: the workflow's node that it is of.
        kind: what was done.
        engine: the engine that did it.
        ready_s: when everything it reads was there.
        sent_s: when it was sent to the engine.
        done_s: when its result was back.
        rows: texts that were embedded or queries that were searched for; 1 for other kinds.
        tokens_read: tokens that a model read for it: of its prompt, its texts or its passages;
            0 where the engine reports none.
        tokens_reused: of these, read from the prefix cache or from stored chunk KV.
        tokens_written: tokens that a model wrote.
        finish_reason: why its text ended; None = it wrote none.
        remote: the model of another server that wrote it, as "model at address"; "" = none.
    """

    name: str
    node: str
    kind: PrimitiveKind
    engine: str
    ready_s: float
    sent_s: float
    done_s: float
    rows: int = 1
    tokens_read: int = 0
    tokens_reused: int = 0
    tokens_written: int = 0
    finish_reason: FinishReason | None = None
    remote: str = ""


@dataclass(frozen=True, slots=True)
class Splice:
    """A retrieval while a generation decoded, and the cost of adding its passages.

    Args:
        node: the generation's.
        turn: of that node, from 0.
        reason: why the generation paused.
        at_token: tokens of the answer that were written before.
        at_s: when, from the request's arrival [s].
        chunks_found: passages that were found.
        chunks_added: of these, those that the prompt didn't show yet.
        chunks_dropped: passages, also of earlier retrievals, that no longer fitted.
        tokens_computed: of the prompt that followed, with the answer until then: tokens that went
            through the model.
        tokens_reused: the others of that prompt, which came from a cache.
    """

    node: str
    turn: int
    reason: FinishReason
    at_token: int
    at_s: float
    chunks_found: int
    chunks_added: int
    chunks_dropped: int
    tokens_computed: int = 0
    tokens_reused: int = 0


@dataclass(frozen=True, slots=True)
class Speculation:
    """A prompt that was computed while its search still ran, with the passages found until then.

    Args:
        node: the generation's.
        turn: of that node, from 0.
        probability: predicted, that these passages were the final ones.
        gain_s: predicted saving [s].
        ahead_s: how long before the prompt itself, or before other passages were found [s].
        is_adopted: whether the passages were the final ones, and the prompt went on from there.
        tokens_prompt: tokens of the prompt.
        tokens_written: tokens that were written behind it, and held back until its end.
        tokens_wasted: tokens of both that were computed for nothing; an upper bound for a prompt
            that was cut off.
    """

    node: str
    turn: int
    probability: float
    gain_s: float
    ahead_s: float
    is_adopted: bool
    tokens_prompt: int = 0
    tokens_written: int = 0
    tokens_wasted: int = 0


class LookupOutcome(Enum):
    """What a lookup among the kept answers has come to."""

    EQUAL = "equal"  # the answer to a question of equal text was taken
    SIMILAR = "similar"  # the answer to a similar question was taken
    MISS = "miss"  # no answer to such a question was there
    CHANGED = "changed"  # one was, and its searches find other passages now
    OTHER_PASSAGES = "other_passages"  # a similar question's was, and this one finds others
    UNUSED = "unused"  # no answer of this request could be taken or kept


@dataclass(frozen=True, slots=True)
class AnswerLookup:
    """A request's lookup among the answers that are kept.

    Args:
        outcome: whether an answer was taken; all but an equal one is an approximation.
        similarity: the cosine of the question and the one that the answer was given to.
        question: the one that the answer was given to.
        age_s: how long the answer had been kept [s].
        is_checked: whether the searches that it rests on were run again for it; else the corpus had
            not changed.
        reason: why it was unused.
    """

    outcome: LookupOutcome
    similarity: float = 0.0
    question: str = ""
    age_s: float = 0.0
    is_checked: bool = False
    reason: str = ""


@dataclass(slots=True)
class RequestCounts(SearchCounts):
    """All that is counted of a request; a server adds those of its requests up."""

    prompt_tokens: int = counter("tokens of prompts")
    prompt_tokens_reused: int = counter(
        "tokens of prompts that came from the prefix cache or from stored chunk KV"
    )
    generated_tokens: int = counter("tokens written")
    passages_read: int = counter(
        "passages that a model read with the question, to rank or to quote them"
    )
    tokens_read: int = counter(
        "tokens of passages that a model read, with the question's",
        metric="heddle_passage_tokens_read",
    )
    texts_truncated: int = counter("texts longer than a model's limit that were cut to it")
    texts_windowed: int = counter(
        "texts longer than the embedder's limit that were read in windows"
    )
    preemptions: int = counter("sequences that lost their KV pages to others")
    retries: int = counter("primitives that were sent again")
    resumed: int = counter(
        "generations that had shown tokens when they failed, and went on behind these"
    )
    constrained: int = counter(
        "texts that had to be of a form, such as JSON of a schema",
        metric="heddle_constrained_texts",
    )
    constrained_cut: int = counter(
        "texts of such a form that were cut off at their most tokens, and so are not of it",
        metric="heddle_constrained_texts_cut",
    )
    repeated: int = counter(
        "generations whose prompt came again in a loop, so that their text was there",
        by_pass=True,
    )
    drafted_tokens: int = counter(
        "drafted tokens that were checked beside the next one, of a loop's earlier texts or of "
        "what a text's form demands (other servers report none)",
        by_pass=True,
    )
    accepted_tokens: int = counter(
        "drafted tokens that were right, each of which saved a step of the model", by_pass=True
    )
    rows_ahead: int = counter(
        "texts embedded, queries searched for and vectors stored before the list or stage that "
        "they are of was whole",
        by_pass=True,
    )
    kv_prefetches: int = counter(
        "requests to an engine to read the stored KV of passages while their search still ran",
        by_pass=True,
    )
    kv_loads_used: int = counter(
        "chunks whose stored KV was read ahead of the prompt, and that it used",
        metric="heddle_kv_loads_ahead_used",
        by_pass=True,
    )
    kv_loads_wasted: int = counter(
        "chunks whose stored KV was read ahead of the prompt, and that it did not use",
        metric="heddle_kv_loads_ahead_wasted",
        by_pass=True,
    )
    kv_transfers: int = counter("prompts that one LLM lane computed and another decoded")
    kv_transfer_bytes: int = counter("KV that went from one LLM lane to another", unit=Unit.BYTES)
    kv_transfer_s: float = counter(
        "time to copy KV out of the pages of one LLM lane and into those of another",
        metric="heddle_kv_transfer_seconds",
        unit=Unit.SECONDS,
    )


@dataclass(slots=True, kw_only=True)
class Receipt(RequestCounts):
    """What was done for a request: counts, times, and where it ran degraded.

    Nothing changes it once the request has its answer. Its counters are those of `RequestCounts`.

    Args:
        optimizations: the most that the request was allowed to use.
        latency_s: from its arrival to its answer [s].
        passes: optimizer passes that changed its graph.
        degradations: where it ran degraded.
        numerics: whether results may depend on which requests shared a batch.
        spans: the times of each primitive.
        kv_reuse: the use of stored chunk KV, for each prompt that was to use it.
        splices: retrievals while a generation decoded.
        recall: the measured recall of the index's searches; None = not measured.
        speculations: prompts that were computed before their search was over.
        remotes: models of other servers that wrote for it, as "model at address".
        searched_by: indexes other than Heddle's own that its searches used, and how far they went.
        edits: what cycle passes changed of it while it was under way, in words.
        barriers: where a workflow function waited for a value, and the passes that could not act
            across it, as no pass saw its later calls before.
        answer_lookup: its lookup among the answers that are kept; None = there was none.
        run: the run of another program that this request is a call of; "" = none.
        caller: the node of that program.

    Example:
        for _ in range(2):
            receipt = server.ask("Who founded Oak Mill?").receipt
        print([span.kind.value for span in receipt.spans])
        # ['embedding', 'searching', 'prefilling', 'decoding']
        print(receipt.prompt_tokens_reused > 0)  # True
    """

    optimizations: Optimizations
    latency_s: float
    passes: tuple[str, ...] = ()
    degradations: tuple[Degradation, ...] = ()
    numerics: str
    spans: tuple[Span, ...] = ()
    kv_reuse: tuple[FusedKv, ...] = ()
    splices: tuple[Splice, ...] = ()
    recall: RecallEstimate | None = None
    speculations: tuple[Speculation, ...] = ()
    remotes: tuple[str, ...] = ()
    searched_by: tuple[str, ...] = ()
    edits: tuple[str, ...] = ()
    barriers: tuple[str, ...] = ()
    answer_lookup: AnswerLookup | None = None
    run: str = ""
    caller: str = ""


_COUNTS: Final = tuple(one.name for one in counters(RequestCounts))
_counts_of: Final = attrgetter(*_COUNTS)


@dataclass(slots=True, kw_only=True)
class ReceiptDraft(RequestCounts):
    """A receipt while its request runs; splices go by the name of the prefill that follows.

    `ends` says why the newest text of each node ended.
    """

    passes: list[str] = field(default_factory=list)
    degradations: list[Degradation] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    kv_reuse: list[FusedKv] = field(default_factory=list)
    splices: dict[str, Splice] = field(default_factory=dict)
    recall: RecallEstimate | None = None
    speculations: list[Speculation] = field(default_factory=list)
    remotes: list[str] = field(default_factory=list)
    searched_by: list[str] = field(default_factory=list)
    edits: list[str] = field(default_factory=list)
    barriers: list[str] = field(default_factory=list)
    ends: dict[str, FinishReason] = field(default_factory=dict)
    answer_lookup: AnswerLookup | None = None
    run: str = ""
    caller: str = ""

    def degrade(self, kind: DegradationKind, *reasons: str) -> None:
        """Note where the request ran degraded, for each reason; there may be none."""
        for reason in reasons:  # mostly none, which must cost nothing
            self.degradations.append(Degradation(kind, reason))

    def take_prompt(self, prefill: str, result: Prefilled, *, is_again: bool = False) -> None:
        """Count a prompt that is in; of one that is in again, as after a lost lane, no tokens."""
        if not is_again:
            self.prompt_tokens += result.tokens
            self.prompt_tokens_reused += result.tokens_reused
        self.preemptions += result.preemptions
        if result.fused is not None:
            self.kv_reuse.append(result.fused)
            self.kv_loads_used += result.fused.loads_used
            self.kv_loads_wasted += result.fused.loads_wasted
            self.degrade(DegradationKind.CHUNK_KV, *result.fused.notes)
        if prefill in self.splices:
            self.splices[prefill] = replace(
                self.splices[prefill],
                tokens_computed=result.tokens_computed,
                tokens_reused=result.tokens_reused,
            )

    def take_transfer(self, transfer: KvTransfer) -> None:
        """Count a prompt that came from another lane."""
        self.kv_transfers += 1
        self.kv_transfer_bytes += transfer.nbytes
        self.kv_transfer_s += transfer.seconds
        if transfer.problem:
            self.degrade(DegradationKind.KV_TRANSFER, transfer.problem)

    def take_remote(self, run: RemoteRun) -> None:
        """Count what another server's model read and wrote."""
        self.prompt_tokens += run.prompt_tokens
        self.prompt_tokens_reused += run.prompt_tokens_reused
        self.generated_tokens += run.tokens
        self.retries += run.tries - 1
        self.remotes.append(f"{run.model} at {run.server}")
        self.degrade(DegradationKind.REMOTE, *run.notes)

    def close(self, optimizations: Optimizations, latency_s: float, numerics: str) -> Receipt:
        """Return the receipt of a request that has its answer."""
        return Receipt(
            **dict(zip(_COUNTS, _counts_of(self), strict=True)),
            optimizations=optimizations,
            latency_s=latency_s,
            passes=tuple(dict.fromkeys(self.passes)),
            degradations=tuple(self.degradations),
            numerics=numerics,
            spans=tuple(self.spans),
            kv_reuse=tuple(self.kv_reuse),
            splices=tuple(self.splices.values()),
            recall=self.recall,
            speculations=tuple(self.speculations),
            remotes=tuple(dict.fromkeys(self.remotes)),
            searched_by=tuple(dict.fromkeys(self.searched_by)),
            edits=tuple(self.edits),
            barriers=tuple(self.barriers),
            answer_lookup=self.answer_lookup,
            run=self.run,
            caller=self.caller,
        )
