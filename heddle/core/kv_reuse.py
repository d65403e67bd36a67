"""How a prompt's retrieved chunks may use KV that was computed elsewhere."""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Literal

from heddle.core.errors import ConfigError


class ReusePolicy(Enum):
    """Which tokens of reused chunks are computed anew in the request's own context."""

    FULL = "full"  # all of them: no reuse beyond the exact prefix
    FULL_REUSE = "full_reuse"  # none
    EPIC = "epic"  # the first of each chunk
    CACHEBLEND = "cacheblend"  # those whose values move most in the first layers
    CACHECRAFT = "cachecraft"  # more of a chunk, the more its old context mattered
    CACHECRAFT_FIXED = "cachecraft_fixed"  # those that looked most at their old context
    FUSIONRAG = "fusionrag"  # those that the question looks at (FusionRAG §3.2)


class QuestionPass(Enum):
    """What the question sees while FusionRAG finds out which tokens it looks at."""

    ALONE = "alone"  # only itself, so it may run while its passages are looked for
    WITH_CONTEXT = "with_context"  # the reused chunks


class PrimedWith(Enum):
    """Which chunks a chunk's KV is computed on top of, ahead of questions."""

    PRECEDING = "preceding"  # what precedes it in its document, and then the nearest (ADR 20)
    NEAREST = "nearest"  # the nearest alone (FusionRAG §3.1)


AUTO: Final = "auto"
RATIO_DEFAULT: Final = 0.15


@dataclass(frozen=True, slots=True)
class KvReuse:
    """A policy, and the share of reused tokens that it may compute anew.

    At ratio 1 every policy computes all of them, at 0 none. A ratio of "auto" is chosen for each
    request: the largest with which it meets its deadline, by the cost model; 0.15 without one.

    Args:
        policy: which reused tokens are computed anew.
        ratio: share of them, from 0 to 1, or "auto".
        primed: prefers KV that has seen other chunks of the corpus.
        primed_with: which ones; KV that was primed with others is never taken in its place.
        question: what the question sees in FusionRAG's pass that selects.
        legacy_mask: CacheBlend as its first repository computes it, for comparison only: question
            tokens compete with the chunks', and the selected tokens see what lies behind them.
        always: reuses and stores also where that is not predicted to pay.

    Raises: ConfigError: the ratio is outside [0, 1], or an option is of another policy.

    Example:
        from heddle import KvReuse, ReusePolicy, Server

        reuse = KvReuse(ReusePolicy.FUSIONRAG, ratio=0.3, always=True)
        with Server("reader", "corpus", optimizations="approx", kv_reuse=reuse) as server:
            server.prime()
            answer = server.ask("Who founded Oak Mill?")
            print(answer.receipt.kv_reuse[0].policy, answer.receipt.kv_reuse[0].ratio)
            # fusionrag 0.3
    """

    policy: ReusePolicy = ReusePolicy.FULL
    ratio: float | Literal["auto"] = RATIO_DEFAULT
    primed: bool = True
    question: QuestionPass = QuestionPass.ALONE
    legacy_mask: bool = False
    primed_with: PrimedWith = PrimedWith.PRECEDING
    always: bool = False

    @property
    def asks_alone(self) -> bool:
        """Whether the question selects by itself, so that it may run ahead of its prompt."""
        is_alone = self.policy is ReusePolicy.FUSIONRAG and self.question is QuestionPass.ALONE
        return is_alone and self.ratio not in (0.0, 1.0)

    @property
    def wants_primed_with(self) -> PrimedWith | None:
        """The neighbours whose primed KV is looked for; None: raw KV is."""
        return self.primed_with if self.primed else None

    @property
    def is_approximate(self) -> bool:
        """Whether answers may differ from those of full attention."""
        return self.policy is not ReusePolicy.FULL

    def __str__(self) -> str:
        """Return the text that `kv_reuse_of` reads as this value."""
        ratio = self.ratio if isinstance(self.ratio, str) else f"{self.ratio:g}"
        chosen = [
            name
            for name, change in _OPTIONS.items()
            if all(getattr(self, field) == value for field, value in change.items())
        ]
        return ",".join((self.policy.value, ratio, *chosen))

    def __post_init__(self) -> None:
        is_share = not isinstance(self.ratio, str) and 0.0 <= self.ratio <= 1.0
        if not is_share and self.ratio != AUTO:
            raise ConfigError(
                f"kv_reuse.ratio is {self.ratio!r}; it is a share of tokens, from 0 to 1, or 'auto'"
            )
        if not self.primed and self.primed_with is not PrimedWith.PRECEDING:
            raise ConfigError(
                f"kv_reuse.primed_with {self.primed_with.value!r} says which primed KV to use, and "
                "raw leaves all of it aside: drop one of the two"
            )
        if self.legacy_mask and self.policy is not ReusePolicy.CACHEBLEND:
            raise ConfigError(
                f"kv_reuse.legacy_mask is an option of cacheblend, not of {self.policy.value}"
            )
        is_option = self.question is not QuestionPass.ALONE
        if is_option and self.policy is not ReusePolicy.FUSIONRAG:
            raise ConfigError(
                f"kv_reuse.question {self.question.value!r} is an option of fusionrag, not of "
                f"{self.policy.value}"
            )


FULL_ATTENTION = KvReuse()
_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "raw": {"primed": False},
    PrimedWith.NEAREST.value: {"primed_with": PrimedWith.NEAREST},
    QuestionPass.WITH_CONTEXT.value: {"question": QuestionPass.WITH_CONTEXT},
    "legacy_mask": {"legacy_mask": True},
    "always": {"always": True},
}
KV_REUSE_FORM: Final = (
    f"POLICY[,RATIO][,OPTION...]: policies {', '.join(policy.value for policy in ReusePolicy)}; "
    f"a ratio from 0 to 1 or auto; options {', '.join(_OPTIONS)}"
)


def kv_reuse_of(value: object) -> KvReuse:
    """Return a KvReuse as it is, or what a text such as "fusionrag,0.15" or "epic,auto,raw" says.

    The form is "POLICY[,RATIO][,OPTION...]"; `raw` stands for primed=False,
    `nearest` for KV primed with the nearest chunks alone, `with_context` for that question pass,
    `always` for reuse without a prediction.

    Raises: ConfigError: it is neither, or a part of it is unknown; the message shows the form.
    """
    if isinstance(value, KvReuse):
        return value
    if not isinstance(value, str):
        raise ConfigError(f"kv_reuse is {value!r}; give a KvReuse, or {KV_REUSE_FORM}")
    return _parsed(value)


def _parsed(text: str) -> KvReuse:
    name, *rest = (part.strip() for part in text.split(","))
    try:
        reuse = KvReuse(ReusePolicy(name))
    except ValueError:
        raise ConfigError(f"kv_reuse: policy {name!r} is unknown; write {KV_REUSE_FORM}") from None
    for part in rest:
        reuse = replace(reuse, **_changes(part))
    return reuse


def _changes(part: str) -> dict[str, Any]:
    if part in _OPTIONS:
        return _OPTIONS[part]
    try:
        return {"ratio": AUTO if part == AUTO else float(part)}
    except ValueError:
        raise ConfigError(
            f"kv_reuse: {part!r} is no ratio or option; write {KV_REUSE_FORM}"
        ) from None
