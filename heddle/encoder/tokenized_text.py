"""A text as the model reads it."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenizedText:
    """A text's token ids, special tokens included.

    `windows` is what follows `token_ids`, where it is longer than the model takes.
    """

    token_ids: Sequence[int]
    windows: Sequence[Sequence[int]] = ()
