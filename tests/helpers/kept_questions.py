"""Sees what engines keep of the questions that they have run ahead."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from heddle.engines.llm.fusion.asked_questions import AskedQuestions, Queries


@contextmanager
def questions_kept() -> Iterator[list[tuple[tuple[int, ...], Queries]]]:
    """Collect each question's tokens and queries [heads, tokens, head_dim] as they are kept."""
    kept: list[tuple[tuple[int, ...], Queries]] = []
    keep = AskedQuestions.keep

    def noting(own: AskedQuestions, salt: str, token_ids: tuple[int, ...], queries: Queries) -> str:
        kept.append((token_ids, queries))
        return keep(own, salt, token_ids, queries)

    with patch.object(AskedQuestions, "keep", noting):
        yield kept
