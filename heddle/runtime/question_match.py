"""Whether two questions that are near in meaning differ in a word that changes the answer.

Embeddings hardly tell "enable" from "disable", "before" from "after" or 8080 from 8081: such pairs
are nearer than many paraphrases. So a cosine alone decides nothing. (ADR 44)
"""

import re
from typing import Final

from heddle.core.content_words import WORD, content_words, stem

TOKEN: Final = re.compile(r"[\w./:@#+'-]*\w")
# What an answer turns on, though it is no subject of its own.
TURNING: Final = frozenset(
    WORD.findall(
        "not no never none nothing without except unless neither nor"
        " before after until since above below over under between within outside inside"
        " more less most least fewer many few all any every each only both either other another"
        " first last next previous newest oldest latest earliest"
        " on off in out up down to from by for with as and or if than then"
        " who whom whose when where why how"
    )
)
PAIRS: Final = re.findall(
    r"(\w+)/(\w+)",
    "add/remove add/delete allow/deny allow/forbid allow/block accept/reject accept/refuse"
    " ascending/descending backward/forward begin/end bigger/smaller buy/sell cheap/expensive"
    " client/server close/open connect/disconnect create/delete decrease/increase"
    " default/maximum default/minimum early/late enter/leave export/import fast/slow grant/revoke"
    " high/low higher/lower highest/lowest hide/show input/output internal/external join/leave"
    " large/small largest/smallest left/right local/remote lock/unlock long/short"
    " longest/shortest lower/upper max/min maximum/minimum old/new older/newer parent/child"
    " pause/resume private/public pull/push read/write receive/send required/optional save/load"
    " source/target start/end start/stop strong/weak sync/async true/false upload/download"
    " upgrade/downgrade win/lose yes/no",
)
OPPOSITES: Final = (*PAIRS, *((second, first) for first, second in PAIRS))
ENDING_MAX: Final = 3  # of a word's inflection, as in "opened" and "opening"
PREFIXES: Final = ("un", "dis", "de", "non", "in", "im", "ir", "re", "anti", "mis")
ROOTED: Final = ("en", "")  # enable is able with a prefix, as disable is


def asks_the_same(question: str, other: str) -> bool:
    """Whether no word that is known to turn an answer tells two questions apart.

    Both must have the same numbers, names and identifiers, and the same words such as "not",
    "before" and "from", in one order with the subjects that they share. No word of the one may be
    known as the opposite of a word of the other. English words alone are known.
    """
    question, other = (text.replace("’", "'") for text in (question, other))
    if _marks(question) != _marks(other):
        return False
    one, two = _telling(question), _telling(other)
    shared = set(one) & set(two)
    if [word for word in one if word in shared] != [word for word in two if word in shared]:
        return False
    here, there = set(one) - shared, set(two) - shared
    if (here | there) & TURNING:
        return False
    return not any(_are_opposites(a, b) for a in here for b in there)


def _marks(question: str) -> list[str]:
    """Return numbers, identifiers, options and names, in order, in lower case."""
    found = TOKEN.findall(question)
    return [
        token.lower().partition("'")[0].strip(".:")
        for place, token in enumerate(found)
        if re.search(r"[\d_/@#+:]|^-|\w[.-]\w", token)
        or (place > 0 and token != "I" and any(letter.isupper() for letter in token))
    ]


def _telling(question: str) -> list[str]:
    """Return the words that carry the subject, and those that an answer turns on, in order."""
    subjects = {stem(word.lower()) for word in content_words(question)}
    words = [_plain(word.lower()) for word in TOKEN.findall(question)]
    return [
        word if word in TURNING else stem(word)
        for word in words
        if word in TURNING or stem(word) in subjects
    ]


def _plain(word: str) -> str:
    """Return a word without what an apostrophe adds; one that negates is "not"."""
    return "not" if word.endswith("n't") or word == "cannot" else word.partition("'")[0]


def _are_opposites(one: str, other: str) -> bool:
    if any(_is_of(one, first) and _is_of(other, second) for first, second in OPPOSITES):
        return True
    long, short = sorted((one, other), key=len, reverse=True)
    bare = [short.removeprefix(root) for root in ROOTED]
    return any(long == prefix + word for prefix in PREFIXES for word in bare if word)


def _is_of(word: str, plain: str) -> bool:
    """Whether a word is another, or perhaps a form of it."""
    begins = word.startswith(plain.removesuffix("e"))
    return begins and len(word) <= len(plain) + ENDING_MAX
