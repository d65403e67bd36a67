"""The words of a text that carry its subject."""

import re
from typing import Final

WORD: Final = re.compile(r"\w+")
# Their lists in a full-text index are the longest by far, and they tell no passage from another.
COMMON: Final = frozenset(
    WORD.findall(
        "a about an and are as at be been by can did do does for from had has have he her his how"
        " i in is it its me my not of on or our she so that the their them there they this to was"
        " we were what when where which who whom why will with would you your"
    )
)
# Words that a question may add without a subject of its own.
WITHOUT_SUBJECT: Final = COMMON | frozenset(
    WORD.findall(
        "again all also am another any anything because before being both but could d each else"
        " even every exactly explain few first get give given happen happened happens if into just"
        " know last least less let like ll made make makes many may mean means might more most much"
        " must need next no now off ok okay one ones only other others out over please re really s"
        " same say says see should show some something still such sure t tell than thank thanks"
        " then these thing things think those through too under up us use used using ve very want"
        " way well whether whose without work works yes yet"
    )
)


def content_words(text: str) -> tuple[str, ...]:
    """Return a text's words without common ones, as they are written, each once.

    A word of one letter counts only where it is a digit or a capital, as in "vitamin C".
    """
    found: dict[str, str] = {}
    for place, word in enumerate(WORD.findall(text)):
        lower = word.lower()
        is_letter = len(word) == 1 and not word.isdigit() and (place == 0 or word.islower())
        if lower not in WITHOUT_SUBJECT and not is_letter:
            found.setdefault(stem(lower), word)
    return tuple(found.values())


def stem(word: str) -> str:
    """Return a word in lower case without an English plural's ending."""
    lower = word.lower()
    if len(lower) > 3 and lower.endswith("ies"):
        return f"{lower[:-3]}y"
    if len(lower) > 4 and lower.endswith(("ches", "shes", "sses", "xes", "zes")):
        return lower[:-2]
    return lower[:-1] if len(lower) > 3 and lower.endswith("s") and lower[-2] not in "su" else lower
