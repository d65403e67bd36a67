"""Read the stored KV of passages from disk while the search that finds them still runs.

A prompt that takes chunk KV from a store waits for what lies on disk, or computes it anew. Its
passages are often known before the search is over.

Source: FusionRAG §4.2 (asynchronous KVCache scheduler); HedraRAG §4.3 (guesses of a search's hits).
Deviates: reading begins before the request's prompt is there, and only where the predicted gain is
    worth it.
Keeps: every answer. What is read is what the prompt would have read itself.
"""

import math
from dataclasses import dataclass
from typing import Final

from heddle.core.kv_reuse import RATIO_DEFAULT
from heddle.costs.load_ahead import ChunkReads
from heddle.passes.cycle_view import CycleView, Edit, EngineView, Prefetch, Provisional

ASK_S: Final = 2e-3
"""What asking costs [s]: the prompt is made once more, sent, and its chunks are looked up. Measured
1.9 ms for 1,140 tokens of the reader, on a core of an Intel Xeon (2026)."""


@dataclass(frozen=True, slots=True)
class PrefetchKv:
    """Asks for what is likely to be wanted, and takes longer to read than to ask for."""

    name: str = "prefetch_kv"

    def apply(self, view: CycleView) -> tuple[Edit, ...]:
        """Return the prompts whose passages' KV is worth reading now."""
        found = ((prompt, _gain_s(prompt, view.engines[prompt.engine])) for prompt in view.stored)
        return tuple(Prefetch(prompt, gain_s) for prompt, gain_s in found if gain_s > 0)

    def reason(self, view: CycleView) -> str:
        """Return why nothing is read for the likeliest prompt; empty where none is offered."""
        if not view.stored:
            return ""
        prompt = max(view.stored, key=lambda one: one.probability)
        engine = view.engines[prompt.engine]
        stored = engine.stored
        if stored is None:
            return "all stored KV is in host memory"
        if engine.pending:
            return f"prompts wait for {engine.name}, and reads are over before their turn"
        saved_s = _saved_s(prompt, engine)
        return (
            f"reading a chunk of stored KV takes {stored.read_s * 1e3:.2g} ms; with "
            f"{len(prompt.chunk_ids)} of them and {prompt.rest_s * 1e3:.2g} ms of search left it "
            f"would have saved {saved_s * 1e3:.2g} ms with probability {prompt.probability:.2g}, "
            f"and asking for it costs {ASK_S * 1e3:g} ms"
        )


def _gain_s(prompt: Provisional, engine: EngineView) -> float:
    """Return the predicted gain [s].

    After a wrong guess, a read that others wait for may wait for one that is under way.
    """
    if engine.stored is None:
        return 0.0
    wrong_s = (1 - prompt.probability) * engine.stored.read_s
    return prompt.probability * _saved_s(prompt, engine) - wrong_s - ASK_S


def _saved_s(prompt: Provisional, engine: EngineView) -> float:
    """Return how much sooner the prompt is in, if it is this one [s]."""
    if engine.stored is None or engine.pending:
        return 0.0
    curve, stored = engine.curve, engine.stored
    chunk_s, busy_s = math.inf, 0.0  # an engine that was not measured yet computes nothing
    if curve is not None:
        chunk_s = (1 - RATIO_DEFAULT) * stored.tokens * curve.token_s
        busy_s = max(0.0, curve.seconds(engine.tokens) - prompt.rest_s)
    reads = ChunkReads(len(prompt.chunk_ids), stored.read_s, chunk_s)
    return reads.saved_s(prompt.rest_s, busy_s)
