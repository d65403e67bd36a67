"""Which policy selects, by its name."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from heddle.core.kv_reuse import ReusePolicy
from heddle.engines.llm.fusion.cacheblend import cacheblend, cacheblend_legacy
from heddle.engines.llm.fusion.cachecraft import cachecraft, cachecraft_fixed
from heddle.engines.llm.fusion.epic import epic
from heddle.engines.llm.fusion.fused_prompt import FusedPrompt, Sweeps
from heddle.engines.llm.fusion.fusionrag import fusionrag
from heddle.engines.llm.fusion.selection import NONE, positions_of

Policy = Callable[[FusedPrompt, float], Sweeps]


def sweeps_of(prompt: FusedPrompt, ratio: float) -> Sweeps:
    """Return what computes a prompt; at ratio 1 there is nothing to choose."""
    if ratio == 1.0:
        return _everything(prompt)
    if prompt.options.legacy_mask:
        return cacheblend_legacy(prompt, ratio)
    return _POLICIES[prompt.options.policy](prompt, ratio)


def _full_reuse(prompt: FusedPrompt, ratio: float) -> Sweeps:
    yield prompt.last_sweep(NONE)


def _everything(prompt: FusedPrompt) -> Sweeps:
    yield prompt.last_sweep(positions_of(prompt.candidate_spans))


_POLICIES: Final[Mapping[ReusePolicy, Policy]] = MappingProxyType(
    {
        ReusePolicy.FULL_REUSE: _full_reuse,
        ReusePolicy.EPIC: epic,
        ReusePolicy.CACHEBLEND: cacheblend,
        ReusePolicy.CACHECRAFT: cachecraft,
        ReusePolicy.CACHECRAFT_FIXED: cachecraft_fixed,
        ReusePolicy.FUSIONRAG: fusionrag,
    }
)
