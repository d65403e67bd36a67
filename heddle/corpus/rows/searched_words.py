"""Which words of a text a search by words looks for."""

from typing import Final

from heddle.core.texts.content_words import COMMON, WORD

WORDS_MAX: Final = 32


def searched_words(text: str) -> list[str]:
    """Return the first words of a text that are not common, or all, each once, in small letters."""
    found = dict.fromkeys(word.lower() for word in WORD.findall(text))
    rare = [word for word in found if word not in COMMON] or list(found)
    return rare[:WORDS_MAX]
