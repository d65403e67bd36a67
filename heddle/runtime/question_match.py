"""Whether two questions that are near in meaning have the same words that an answer turns on.

Embeddings hardly tell "enable" from "disable", "wife" from "daughter" or 8080 from 8081: such pairs
are nearer than many paraphrases. So a cosine alone decides nothing. (ADR 44)
"""

import re
from collections.abc import Iterator
from typing import Final

from heddle.core.texts.content_words import WITHOUT_SUBJECT, WORD, stem

# A word, or else a run of signs such as "++" or "!="; what opens a quote or bracket is neither.
TOKEN: Final = re.compile(r"((?!')[\w./:@#+'-]*\w)|([^\w\s\"'`(“„‘«¿¡][^\w\s]*)")
PUNCTUATION: Final = "?!.,;:\"'`)”’»…、。？！"
SHORT_FORM: Final = re.compile(r"'(?:s|re|ve|d|m)$", re.IGNORECASE)
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
    """Whether two questions have the same words and signs in the same order.

    Words that carry no subject and turn no answer don't count, such as articles, nor do
    punctuation, English plurals and most capitals. A letter on its own counts, as in "zone D", and
    so does a name such as "WHO". Questions without a word that counts are never the same.
    """
    words = [*_words(question)]
    return bool(words) and words == [*_words(other)]


def _words(question: str) -> Iterator[str]:
    begins_sentence = True
    for token, signs in TOKEN.findall(question.replace("’", "'").replace("'ll", " will")):
        word = _counted(token, begins_sentence) if token else signs.rstrip(PUNCTUATION)
        begins_sentence = not word and signs[:1] in (".", "?", "!")
        if word:
            yield word


def _counted(token: str, begins_sentence: bool) -> str:
    """Return what a word counts as; "" = it carries no subject and turns no answer."""
    if token.lower().endswith("n't") or token.lower() == "cannot":
        return "not"
    if any(character.isdigit() for character in token):
        return token.lower()  # "1990s" is no plural of "1990"
    written = SHORT_FORM.sub("", token)
    word = written.lower()
    if word in TURNING or (len(word) == 1 and word != "a"):
        return word
    # "Will", "IT" or zone "A", where a common word would be written small.
    is_name = written[0].isupper() and not begins_sentence
    if is_name or (len(word) > 1 and written.isupper()):
        return stem(word)
    return TENSES.get(word, "" if word in WITHOUT_SUBJECT else stem(word))
