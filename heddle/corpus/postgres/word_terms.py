"""Words as SQLite's FTS5 cuts and stems them, so that both stores rank by the same words."""

import sqlite3
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from heddle.core.texts.content_words import WORD

TOKENIZE: Final = "porter unicode61"
TERM_BYTES_MAX: Final = 1000  # of a term; PostgreSQL indexes no longer ones


@dataclass(frozen=True, slots=True)
class WordCounts:
    """How often each term stands in a text, and how many tokens the text has."""

    words: Counter[str]
    tokens: int


class WordTerms:
    """Cuts texts into terms. Thread-safe.

    A word of several tokens, such as `snake_case`, is a term of its own as well, its tokens with
    spaces between, so that it is found where it stands as one word.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._memory = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._memory.execute(
            f"CREATE VIRTUAL TABLE texts USING fts5 (title, text, tokenize = '{TOKENIZE}')"
        )
        self._memory.execute("CREATE VIRTUAL TABLE terms USING fts5vocab (texts, instance)")

    def counts(self, texts: Sequence[tuple[str, str]]) -> list[WordCounts]:
        """Return the counts of each title and text."""
        counters = [Counter(tokens) for tokens in self._tokens(texts)]
        found = [WordCounts(words, words.total()) for words in counters]
        wholes = [Counter(_wholes(f"{title}\n{text}")) for title, text in texts]
        unique = sorted({whole for one in wholes for whole in one})
        term_of = dict(zip(unique, self.terms(unique), strict=True))
        for one, whole in zip(found, wholes, strict=True):
            for word, count in whole.items():
                if " " in term_of[word]:
                    one.words[term_of[word]] += count
        for one in found:
            for word in [word for word in one.words if len(word.encode()) > TERM_BYTES_MAX]:
                del one.words[word]
        return found

    def terms(self, words: Sequence[str]) -> list[str]:
        """Return the term of each word; "" = it has no letter or digit."""
        return [" ".join(tokens) for tokens in self._tokens([("", word) for word in words])]

    def close(self) -> None:
        """Let go of it."""
        self._memory.close()

    def _tokens(self, texts: Sequence[tuple[str, str]]) -> list[list[str]]:
        if not texts:
            return []
        found: list[list[str]] = [[] for _ in texts]
        with self._lock:
            self._memory.execute("BEGIN")
            try:
                self._memory.executemany(
                    "INSERT INTO texts (rowid, title, text) VALUES (?, ?, ?)",
                    ((number, *pair) for number, pair in enumerate(texts)),
                )
                rows = self._memory.execute("SELECT doc, term FROM terms ORDER BY doc, col, offset")
                for number, term in rows:
                    found[number].append(term)
            finally:
                self._memory.execute("ROLLBACK")
        return found


def _wholes(text: str) -> list[str]:
    """Return the words of a text that may be several tokens."""
    return [word.lower() for word in WORD.findall(text) if not word.isalnum()]
