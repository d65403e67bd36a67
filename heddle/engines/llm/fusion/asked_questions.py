"""Questions that were run before their prompts were known: what they look for. (FusionRAG §3.2)"""

import logging
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from heddle.engines.llm.fusion.fused_prompt import NOT_SCORED, ReusedChunk, ScoredAhead

log = logging.getLogger(__name__)

Queries = NDArray[np.float32]

BYTES_MAX: Final = 64 << 20  # a 7B's question of 64 tokens takes 1 MiB


class QuestionScorer(Protocol):
    """The worker, as far as questions need it."""

    def scores(
        self, queries: Queries, blocks: Sequence[tuple[object, int]]
    ) -> tuple[NDArray[np.float32], ...]:
        """Return how much queries look at each token of these chunks.

        Each block comes with how far the queries are rotated for it [tokens].
        Shapes: queries [heads, n, head_dim]; results [tokens of the block] each.
        """
        ...


class Asking:
    """A question on its way through the model, by itself at positions 0 and on.

    Mutates: `take` adds what a slice has measured; one that lost its pages begins anew.
    """

    def __init__(self) -> None:
        self._parts: list[Queries] = []

    @property
    def queries(self) -> Queries:
        """Its queries of the last layer. Shapes: [heads, tokens, head_dim]."""
        return np.ascontiguousarray(np.concatenate(self._parts, axis=1))

    def take(self, start: int, queries: Queries) -> None:
        """Add the queries from token `start` on. Shapes: [heads, n, head_dim]."""
        if start == 0:
            self._parts.clear()
        self._parts.append(queries)


class AskedQuestions:
    """Keeps questions' queries by tenant and tokens; those used longest ago go first.

    A prompt finds them by its last tokens, so no entry has to be given back, and a changed
    question finds none.
    """

    def __init__(self, scorer: QuestionScorer, bytes_max: int = BYTES_MAX) -> None:
        self._scorer = scorer
        self._bytes_max = bytes_max
        self._kept: OrderedDict[tuple[str, tuple[int, ...]], Queries] = OrderedDict()
        self._bytes = 0

    @property
    def bytes_held(self) -> int:
        """What the kept queries take."""
        return self._bytes

    def knows(self, salt: str, token_ids: tuple[int, ...]) -> bool:
        """Whether a tenant's question was run; it is kept longer so."""
        known = (salt, token_ids) in self._kept
        if known:
            self._kept.move_to_end((salt, token_ids))
        return known

    def keep(self, salt: str, token_ids: tuple[int, ...], queries: Queries) -> str:
        """Keep what a question looks for. Shapes: queries [heads, len(token_ids), head_dim].

        Returns: why it can't be kept; "" where it is.
        """
        if queries.nbytes > self._bytes_max:
            return f"a question's {queries.nbytes} bytes of queries are more than are kept of all"
        if self.knows(salt, token_ids):
            return ""
        self._kept[salt, token_ids] = queries
        self._bytes += queries.nbytes
        while self._bytes > self._bytes_max:
            self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return ""

    def scores(
        self, salt: str, token_ids: tuple[int, ...], start: int, chunks: Iterable[ReusedChunk]
    ) -> ScoredAhead:
        """Return how much a question that stands at `start` looks at the tokens of chunks.

        One product with the stored keys of the last layer, and no pass through the model.
        """
        if not self.knows(salt, token_ids):
            return NOT_SCORED
        wanted = tuple(chunks)
        blocks = [(c.block, start - (c.span.start - c.record.base)) for c in wanted]
        try:
            scores = self._scorer.scores(self._kept[salt, token_ids], blocks)
        except Exception as error:  # any error of the device: the other sweep still works
            log.exception("a question that was run ahead could not be scored")
            problem = f"{type(error).__name__} while scoring the question that was run ahead"
            return ScoredAhead({}, f"{problem}: it ran with its prompt")
        return ScoredAhead({c.span.start: s for c, s in zip(wanted, scores, strict=True)})
