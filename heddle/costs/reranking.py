"""Whether a prompt's passages are reranked first, so that fewer of them answer as well.

A model that reads the question with each of twice as many passages, and keeps three of five, leaves
the answer in the prompt as often as the search alone does with five. (docs/results/answers.md)
"""

from dataclasses import dataclass
from typing import Final

READ_OF: Final = 2  # passages read for each that a prompt has without reranking
_KEPT, _KEPT_OF = 3, 5


@dataclass(frozen=True, slots=True)
class ModelWork:
    """What a token costs a model: two operations a parameter.

    Args:
        parameters: of its layers; a vocabulary's vectors are looked up, not multiplied.
        threads: that share the work.
    """

    parameters: int
    threads: int

    @property
    def of_a_token(self) -> float:
        """Operations of each thread, for one token."""
        return 2 * self.parameters / self.threads


@dataclass(frozen=True, slots=True)
class RankedSearch:
    """How a search goes on with reranking: passages found and read, and those kept of them."""

    found: int
    kept: int

    @classmethod
    def instead_of(cls, topk: int) -> "RankedSearch":
        """Return the search that does as well as one for `topk` passages without reranking."""
        return cls(READ_OF * topk, max(1, -(-_KEPT * topk // _KEPT_OF)))


def reranking_pays(reader: ModelWork, llm: ModelWork, topk: int) -> bool:
    """Whether reading more passages takes less time than a prompt with `topk` of them.

    Both models compute in one dtype on processors of one kind, so passages' tokens cancel out.
    """
    ranked = RankedSearch.instead_of(topk)
    return ranked.found * reader.of_a_token < (topk - ranked.kept) * llm.of_a_token
