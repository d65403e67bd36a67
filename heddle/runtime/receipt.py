"""What was done for a request: counts, times, fallbacks. Every answer carries one."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from heddle.core.primitives import PrimitiveKind
from heddle.core.results import FinishReason, FusedKv, KvTransfer, Prefilled, RecallEstimate
from heddle.core.tasks import Optimizations


class FallbackKind(Enum):
    """What went another way than asked, in a word."""

    PASS = "pass"  # one failed, and was left out
    RETRY = "retry"
    SEARCH = "search"
    CHUNK_KV = "chunk_kv"
    QUESTION_AHEAD = "question_ahead"  # it was not run ahead of its prompt
    EMPTY_LIST = "empty_list"
    SPECULATION = "speculation"  # a prompt was not computed ahead
    KV_TRANSFER = "kv_transfer"  # a prompt's KV did not all come from the lane that prefilled it


@dataclass(frozen=True, slots=True)
class Span:
    """One primitive's times, from the request's arrival [s]."""

    name: str
    node: str
    kind: PrimitiveKind
    engine: str
    ready_s: float
    sent_s: float
    done_s: float


@dataclass(frozen=True, slots=True)
class Splice:
    """A retrieval while a generation decoded, and what adding its passages cost.

    `at_token` tokens of the answer were written by then, `at_s` is from the request's arrival
    [s]. Of the chunks found those that the prompt didn't show yet were added; dropped ones, of
    this or of earlier retrievals, no longer fit. Of the prompt that followed, the answer so far
    included, `tokens_reused` came from a cache and `tokens_computed` went through the model.
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
    """A prompt that was computed while its search went on, with the passages found by then.

    They were predicted to be the final ones with `probability`, and to save `gain_s`. It was sent
    `ahead_s` before the prompt itself, or before the search found others [s]. `is_adopted`: they
    were the final ones, and the prompt went on from what was computed by then; else that was rolled
    back.
    """

    node: str
    turn: int
    probability: float
    gain_s: float
    ahead_s: float
    is_adopted: bool


@dataclass(frozen=True, slots=True)
class Receipt:
    """Counts over the whole request; `fallbacks` names everything that went another way.

    `fallback_kinds` counts these by kind, a `FallbackKind` each;
    of the texts longer than the embedder takes, `texts_truncated` were cut and `texts_windowed`
    read in windows;
    `fused` has an entry for each prompt that was to use stored chunk KV, which is approximate;
    `splices` has one for each retrieval while a generation decoded;
    `speculations` has one for each prompt that was computed before its search was over;
    graph searches opened `nodes_opened` nodes; a vector pool held searches back for
    `search_wait_s` [s] and took `searches_parked` times a slot back from one; of the lists scanned
    a device beside the host took `lists_on_device` (hot clusters); `hits_cached` of the hits an
    earlier search of the request had found; `recall` is what the index's searches found by then;
    `kv_transfers` prompts came from another LLM lane than decoded them, with `kv_transfer_bytes`
    of KV, which took `kv_transfer_s` to be copied out and in [s];
    `numerics` says whether results may depend on which requests shared a batch.
    """

    optimizations: Optimizations
    latency_s: float
    prompt_tokens: int
    prompt_tokens_reused: int
    generated_tokens: int
    lists_scanned: int
    lists_probed: int
    texts_truncated: int
    preemptions: int
    retries: int
    passes: tuple[str, ...]
    fallbacks: tuple[str, ...]
    numerics: str
    spans: tuple[Span, ...]
    kv_reuse: tuple[FusedKv, ...] = ()
    splices: tuple[Splice, ...] = ()
    nodes_opened: int = 0
    search_wait_s: float = 0.0
    searches_parked: int = 0
    lists_on_device: int = 0
    texts_windowed: int = 0
    hits_cached: int = 0
    recall: RecallEstimate | None = None
    fallback_kinds: Mapping[str, int] = field(default_factory=dict)
    speculations: tuple[Speculation, ...] = ()
    kv_transfers: int = 0
    kv_transfer_bytes: int = 0
    kv_transfer_s: float = 0.0


@dataclass(slots=True)
class ReceiptDraft:
    """The counts while a request runs; splices go by the name of the prefill that follows."""

    prompt_tokens: int = 0
    prompt_tokens_reused: int = 0
    generated_tokens: int = 0
    lists_scanned: int = 0
    lists_probed: int = 0
    texts_truncated: int = 0
    texts_windowed: int = 0
    preemptions: int = 0
    retries: int = 0
    passes: list[str] = field(default_factory=list)
    fallbacks: list[str] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    kv_reuse: list[FusedKv] = field(default_factory=list)
    splices: dict[str, Splice] = field(default_factory=dict)
    nodes_opened: int = 0
    search_wait_s: float = 0.0
    searches_parked: int = 0
    lists_on_device: int = 0
    hits_cached: int = 0
    recall: RecallEstimate | None = None
    fallback_kinds: Counter[str] = field(default_factory=Counter)
    speculations: list[Speculation] = field(default_factory=list)
    kv_transfers: int = 0
    kv_transfer_bytes: int = 0
    kv_transfer_s: float = 0.0

    def fall_back(self, kind: FallbackKind, *notes: str) -> None:
        """Note what went another way, each in words; nothing where there are none."""
        self.fallbacks.extend(notes)
        if notes:
            self.fallback_kinds[kind.value] += len(notes)

    def take_prompt(self, prefill: str, result: Prefilled) -> None:
        """Count a prompt that is in."""
        self.prompt_tokens += result.tokens
        self.prompt_tokens_reused += result.tokens_reused
        self.preemptions += result.preemptions
        if result.fused is not None:
            self.kv_reuse.append(result.fused)
            self.fall_back(FallbackKind.CHUNK_KV, *result.fused.fallbacks)
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
            self.fall_back(FallbackKind.KV_TRANSFER, transfer.problem)

    def close(self, optimizations: Optimizations, latency_s: float, numerics: str) -> Receipt:
        """Return the frozen receipt."""
        return Receipt(
            optimizations=optimizations,
            latency_s=latency_s,
            prompt_tokens=self.prompt_tokens,
            prompt_tokens_reused=self.prompt_tokens_reused,
            generated_tokens=self.generated_tokens,
            lists_scanned=self.lists_scanned,
            lists_probed=self.lists_probed,
            texts_truncated=self.texts_truncated,
            texts_windowed=self.texts_windowed,
            preemptions=self.preemptions,
            retries=self.retries,
            passes=tuple(dict.fromkeys(self.passes)),
            fallbacks=tuple(self.fallbacks),
            numerics=numerics,
            spans=tuple(self.spans),
            kv_reuse=tuple(self.kv_reuse),
            splices=tuple(self.splices.values()),
            nodes_opened=self.nodes_opened,
            search_wait_s=self.search_wait_s,
            searches_parked=self.searches_parked,
            lists_on_device=self.lists_on_device,
            hits_cached=self.hits_cached,
            recall=self.recall,
            fallback_kinds=dict(self.fallback_kinds),
            speculations=tuple(self.speculations),
            kv_transfers=self.kv_transfers,
            kv_transfer_bytes=self.kv_transfer_bytes,
            kv_transfer_s=self.kv_transfer_s,
        )
