"""Which prompts are computed whole though KV of their chunks is stored, or may be. (ADR 57)"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.kv_reuse import AUTO, RATIO_DEFAULT, KvReuse, QuestionPass, ReusePolicy
from heddle.costs.fusion_gain import FusionForecast, Sweep, extra_s, sweeps_s
from heddle.costs.prefill import prefill_token_s
from heddle.engines.llm.fusion.prompt_layout import PromptLayout
from heddle.kv.chunk_key import HitKind

TRIED_EVERY: Final = 32


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a prompt meets that comes now.

    Args:
        costs: of the engine's steps.
        step_tokens: most prompt tokens of a step.
        exact_tokens: the prompt's first tokens that the prefix cache holds.
        tokens_ahead: prompt tokens that the engine computes before it.
        beside: sequences that have a seat.
    """

    costs: CostSnapshot
    step_tokens: int
    exact_tokens: int = 0
    tokens_ahead: int = 0
    beside: int = 0

    def token_s(self, prompt_tokens: int) -> float:
        """Return what a token of a prompt of this length takes in full steps [s]."""
        return prefill_token_s(self.costs, prompt_tokens, self.step_tokens)

    def busy_s(self, prompt_tokens: int) -> float:
        """Return how long the engine has others to compute [s]."""
        return self.token_s(prompt_tokens) * self.tokens_ahead


@dataclass(frozen=True, slots=True)
class PromptGuard:
    """Judges one prompt.

    Args:
        layout: of the prompt.
        reuse: as it was asked for.
        outlook: as it comes.
        is_ahead: whether its question was run ahead, so that it need not select.
        is_trial: whether it is fused even where only the extra price of fused steps is against it.
    """

    layout: PromptLayout
    reuse: KvReuse
    outlook: Outlook
    is_ahead: bool
    is_trial: bool = False

    def all_stored(self) -> FusionForecast:
        """Return what to expect if all chunks are stored, the first one right behind the prefix."""
        kinds = dict.fromkeys(range(len(self.layout.chunks)), HitKind.CANONICAL)
        return self.forecast({**kinds, 0: HitKind.EXACT})

    def forecast(self, kinds: Mapping[int, HitKind], wait_s: float = 0.0) -> FusionForecast:
        """Return what to expect with KV of these chunks.

        Args:
            kinds: how it was found, by the chunk's index.
            wait_s: for loads, longer than the engine is busy with others [s].
        """
        look, fused = self.outlook, tuple(self._fused(kinds))
        return FusionForecast(
            sweeps_s((self._whole(),), look.costs, look.step_tokens, look.beside),
            wait_s + sweeps_s(fused, look.costs, look.step_tokens, look.beside),
            extra_s(fused, look.costs, look.step_tokens),
        )

    def allows(self, forecast: FusionForecast) -> bool:
        """Whether a prompt with this forecast is fused."""
        is_allowed = forecast.pays or (self.is_trial and forecast.pays_but_for_extra)
        return self.reuse.always or is_allowed

    def _whole(self) -> Sweep:
        tokens, exact = self.layout.tokens, self.outlook.exact_tokens
        return Sweep(max(1, tokens - exact), tokens, exact)

    def _fused(self, kinds: Mapping[int, HitKind]) -> Iterator[Sweep]:
        """Yield what a policy computes, at most about: see `fusion/`, where each does."""
        tokens, exact = self.layout.tokens, self.outlook.exact_tokens
        covered, candidates = exact, 0
        for index, kind in kinds.items():
            span = self.layout.chunks[index]
            reused = max(0, span.stop - max(span.start, exact))
            covered += reused
            candidates += 0 if kind is HitKind.EXACT else reused
        selected = int(ratio_of(self.reuse) * candidates)
        if self.reuse.policy is ReusePolicy.CACHEBLEND:
            yield Sweep(max(1, tokens - exact), tokens, exact, is_fused=True, checks=True)
        elif self.reuse.policy is ReusePolicy.FUSIONRAG and selected and not self.is_ahead:
            question = tokens - max(self.layout.question_start, exact)
            is_alone = self.reuse.question is QuestionPass.ALONE
            before = 0 if is_alone else tokens - question
            yield Sweep(max(1, question), before + question, before, is_fused=True)
        yield Sweep(max(1, tokens - covered + selected), tokens, is_fused=True)


class FusionGuard:
    """Says of each prompt why it is computed whole; "" where it may be fused.

    Where only the extra price of fused rows and tokens is against fusing, one of `TRIED_EVERY` such
    prompts is fused all the same. Else a price that was measured on a busy machine would stay,
    since steps without a fused prompt say nothing about it.

    Mutates: counts the prompts that are computed `whole`, and those that its owner has `fused`.
    """

    def __init__(self) -> None:
        self.fused = 0
        self.whole = 0
        self._doubtful = 0

    def prompt(
        self, layout: PromptLayout, reuse: KvReuse, outlook: Outlook, *, is_ahead: bool
    ) -> PromptGuard:
        """Return what judges a prompt that has come."""
        return PromptGuard(layout, reuse, outlook, is_ahead, self._doubtful >= TRIED_EVERY)

    def against_all(self, prompt: PromptGuard) -> str:
        """Return why a prompt is computed whole with all stored, so that nothing is looked up.

        Mutates: counts it.
        """
        return self._against(prompt, prompt.all_stored(), "all of its chunks")

    def against(self, prompt: PromptGuard, kinds: Mapping[int, HitKind], wait_s: float) -> str:
        """Return why a prompt is computed whole with KV of these chunks at hand.

        Mutates: counts it; a trial ends with the first prompt that is fused for it.
        """
        chunks = f"{len(kinds)} of its {len(prompt.layout.chunks)} chunks"
        forecast = prompt.forecast(kinds, wait_s)
        if prompt.is_trial and forecast.pays_but_for_extra and not forecast.pays:
            self._doubtful = 0
        return self._against(prompt, forecast, chunks)

    def _against(self, prompt: PromptGuard, forecast: FusionForecast, chunks: str) -> str:
        if prompt.allows(forecast):
            return ""
        self.whole += 1
        self._doubtful += forecast.pays_but_for_extra
        return (
            f"predicted to take {forecast.whole_s:.3g} s of the engine's time, and "
            f"{forecast.fused_s:.3g} s with stored KV of {chunks}"
        )


def ratio_of(reuse: KvReuse) -> float:
    """Return the share of a reused chunk's tokens that is likely to be computed anew."""
    if reuse.policy is ReusePolicy.FULL_REUSE:
        return 0.0
    return RATIO_DEFAULT if reuse.ratio == AUTO else float(reuse.ratio)
