"""Replies that claim nothing which could be looked up in a passage."""

from typing import Final

from heddle.evals.metrics.normalized_text import normalized_text

NOT_IN_NOTES: Final = "not in the notes"
_CLAIMLESS: Final = frozenset(normalized_text(reply) for reply in ("", "yes", "no", NOT_IN_NOTES))


def is_claimless(reply: str) -> bool:
    """Whether a reply is empty, "yes", "no" or "not in the notes"."""
    return normalized_text(reply) in _CLAIMLESS
