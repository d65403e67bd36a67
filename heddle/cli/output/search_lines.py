"""What a search found, as text and as JSON."""

import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from heddle.cli.output.best_lines import best_lines
from heddle.core.passages import Passage
from heddle.core.printing.place_words import place_words
from heddle.core.printing.printable import printable_text
from heddle.server.wire import passage_json

WIDTH_MAX: Final = 100
LINES_SHOWN: Final = 4  # of each passage
INDENT: Final = "   "


def output_width() -> int:
    """Return how wide lines may be: the terminal's width, at most 100."""
    if not sys.stdout.isatty():
        return WIDTH_MAX
    return min(WIDTH_MAX, shutil.get_terminal_size().columns)


def search_lines(
    passages: Sequence[Passage], query: str, width: int, *, by_words: bool = False
) -> Iterator[str]:
    """Yield what was found: rank, score or distance, place, and the best lines of each passage.

    Args:
        passages: the best first.
        query: what was searched for.
        width: characters of a line.
        by_words: whether words alone ranked them, so that they have no distance.
    """
    if not passages:
        yield "nothing was found"
    for rank, passage in enumerate(passages, start=1):
        if rank > 1:
            yield ""
        yield f"{rank}. {_measure(passage, by_words=by_words)}{place_words(passage)}"
        shown = best_lines(passage.text, query, width=width - len(INDENT), lines_max=LINES_SHOWN)
        yield from (printable_text(f"{INDENT}{line}") for line in shown)


def search_json(
    passages: Sequence[Passage],
    query: str,
    receipt: Mapping[str, object] | None,
    *,
    by_words: bool = False,
) -> str:
    """Return what was found as one JSON object; see `search_lines`."""
    without = {"distance": None} if by_words else {}
    found = [
        {"rank": rank, **passage_json(one), **without} for rank, one in enumerate(passages, start=1)
    ]
    value = {"query": query, "passages": found, "receipt": receipt}
    return json.dumps(value, ensure_ascii=False, indent=1, default=_plain)


def _measure(passage: Passage, *, by_words: bool) -> str:
    if passage.score is not None:
        return f"score {passage.score:.2f}  "
    return "" if by_words else f"distance {passage.distance:.3f}  "


def _plain(value: object) -> object:
    return getattr(value, "value", str(value))
