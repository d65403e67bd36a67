"""Quoted answers as text: the answer, its sentence, and where the sentence stands."""

from collections.abc import Iterator

from heddle.core.printing.place_words import place_words
from heddle.core.printing.printable import printable_text
from heddle.core.quotations import NOT_FOUND, Quotation
from heddle.runtime.events import Answer

BOLD, PLAIN = "\033[1m", "\033[0m"


def quote_lines(answer: Answer, *, is_styled: bool) -> Iterator[str]:
    """Yield an extraction's answer: the best quote first, or that nothing was found.

    Args:
        answer: the answer of a workflow that ends with an extraction.
        is_styled: whether terminal codes may mark the quote in its sentence.
    """
    if not answer.quotes:
        yield NOT_FOUND
        if answer.nearest:
            yield ""
            yield "The nearest places:"
        for quotation in answer.nearest:
            yield from _quotation_lines(quotation, is_styled=False)
        return
    yield printable_text(answer.quotes[0].text)
    for number, quotation in enumerate(answer.quotes):
        if number == 1:
            yield ""
            yield "Other places:"
        yield from _quotation_lines(quotation, is_styled=is_styled)


def _quotation_lines(quotation: Quotation, *, is_styled: bool) -> Iterator[str]:
    place = quotation.passage.place
    start, end = place.start + quotation.start, place.start + quotation.end
    yield ""
    yield f'  "{_sentence(quotation, is_styled=is_styled)}"'
    yield f"  {place_words(quotation.passage)}, characters {start}-{end}"


def _sentence(quotation: Quotation, *, is_styled: bool) -> str:
    """Return the sentence in one line, with the quote marked."""
    text = quotation.sentence
    first = quotation.start - quotation.sentence_start
    last = first + len(quotation.text)
    parts = (text[:first], text[first:last], text[last:])
    before, marked, after = (printable_text(part) for part in parts)
    if is_styled:
        marked = f"{BOLD}{marked}{PLAIN}"
    return " ".join(f"{before}{marked}{after}".split())
