"""The documentation's pages: their headings, as links name them."""

import re
from pathlib import Path

HEADING = re.compile(r"^#{1,6} (.+)$", re.M)


def anchors(page: Path) -> set[str]:
    """Return a page's anchors as forges make them of its headings."""
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", text).strip().lower().replace(" ", "-") for text in headings}
