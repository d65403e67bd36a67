"""Text as answers are compared: SQuAD's normalisation."""

import re
import string
from typing import Final

_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


def normalized_text(text: str) -> str:
    """Return lower case text without ASCII punctuation, English articles and extra space.

    Source: SQuAD (Rajpurkar et al. 2016), the official evaluation's rule, in its order.
    """
    bare = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def answer_tokens(text: str) -> list[str]:
    """Return the words of a text's normalised form."""
    return normalized_text(text).split()
