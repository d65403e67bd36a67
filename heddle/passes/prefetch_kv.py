"""Read the stored KV of passages from disk while the search that finds them still runs.

A prompt that takes chunk KV from a store waits for what lies on disk, or computes it anew. Its
passages are often known before the search is over.

Source: FusionRAG §4.2 (asynchronous KVCache scheduler); HedraRAG §4.3 (guesses of a search's hits).
Deviates: reading begins before the request's prompt is there.
Keeps: every answer. What is read is what the prompt would have read itself.
"""

from dataclasses import dataclass

from heddle.passes.cycle_view import CycleView, Edit, Prefetch, Provisional


@dataclass(frozen=True, slots=True)
class PrefetchKv:
    """Asks for what is likelier than not to be wanted."""

    name: str = "prefetch_kv"

    def apply(self, view: CycleView) -> tuple[Edit, ...]:
        """Return the prompts whose passages' KV is worth reading now."""
        found = ((prompt, _gain_s(prompt)) for prompt in view.stored)
        return tuple(Prefetch(prompt, gain_s) for prompt, gain_s in found if gain_s > 0)


def _gain_s(prompt: Provisional) -> float:
    """Return the predicted gain at most [s]: how long a read takes is not known here.

    A right read saves no more than what is left of the search. A wrong one is taken to cost as
    much, as other prompts' reads may wait for it.
    """
    return (2 * prompt.probability - 1) * prompt.rest_s
