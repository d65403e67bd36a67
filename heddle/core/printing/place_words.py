"""Where a passage stands, in words."""

from typing import Final

from heddle.core.passages import Passage
from heddle.core.printing.printable import printable_line

HEADING_JOIN: Final = " > "


def place_words(passage: Passage) -> str:
    """Return where a passage stands: file, page and headings, or else its title."""
    place = passage.place
    where = str(place) or passage.document_id
    heading = HEADING_JOIN.join(place.heading) or passage.title
    return printable_line(f"{where}, {heading}" if heading and heading != where else where)
