"""What was done for a request: counts, times, fallbacks. Every answer carries one."""

from dataclasses import dataclass, field

from heddle.core.primitives import PrimitiveKind
from heddle.core.results import FusedKv
from heddle.core.tasks import Optimizations


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
class Receipt:
    """Counts over the whole request; `fallbacks` names everything that went another way.

    `fused` has an entry for each prompt that used stored chunk KV, which is approximate;
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
    fused: tuple[FusedKv, ...] = ()


@dataclass(slots=True)
class ReceiptDraft:
    """The counts while a request runs."""

    prompt_tokens: int = 0
    prompt_tokens_reused: int = 0
    generated_tokens: int = 0
    lists_scanned: int = 0
    lists_probed: int = 0
    texts_truncated: int = 0
    preemptions: int = 0
    retries: int = 0
    passes: tuple[str, ...] = ()
    fallbacks: list[str] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    fused: list[FusedKv] = field(default_factory=list)

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
            preemptions=self.preemptions,
            retries=self.retries,
            passes=self.passes,
            fallbacks=tuple(self.fallbacks),
            numerics=numerics,
            spans=tuple(self.spans),
            fused=tuple(self.fused),
        )
