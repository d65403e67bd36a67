"""Whether two questions that are near in meaning have the same words that an answer turns on.

Embeddings hardly tell "enable" from "disable", "wife" from "daughter" or 8080 from 8081: such pairs
are nearer than many paraphrases. So a cosine alone decides nothing. (ADR 44)
"""

import re
from collections.abc import Iterator
from typing import Final

from heddle.core.texts.content_words import WITHOUT_SUBJECT, WORD, stem

TOKEN: Final = re.compile(r"[\w./:@#+'-]*\w")
# What an answer turns on, though it is no subject of its own.
TURNING: Final = frozenset(
    WORD.findall(
        "not no never none nothing without except unless neither nor"
        " before after until since above below over under between within outside inside"
        " more less most least fewer many few all any every each only both either other another"
        " first last next previous newest oldest latest earliest"
        " on off in out up down to from by for with as and or if than then again"
        " who whom whose when where why how may might must should he she him her his one now"
    )
)
TENSES: Final = {"was": "past", "were": "past", "did": "past", "had": "past", "will": "future"}


def asks_the_same(question: str, other: str) -> bool:
    """Whether two questions have the same words in the same order.

    Words that carry no subject and turn no answer don't count, such as articles, nor do capitals,
    punctuation and English plurals. Questions of such words alone are never the same.
    """
    words = [*_words(question)]
    return bool(words) and words == [*_words(other)]


def _words(question: str) -> Iterator[str]:
    for token in TOKEN.findall(question.replace("’", "'").lower()):
        word = _plain(token)
        if word in TURNING:
            yield word
        elif word in TENSES:
            yield TENSES[word]
        elif word not in WITHOUT_SUBJECT:
            yield stem(word)


def _plain(token: str) -> str:
    """Return a word without what an apostrophe adds; one that negates is "not"."""
    if token.endswith("n't") or token == "cannot":
        return "not"
    return token.partition("'")[0].strip(".:")
