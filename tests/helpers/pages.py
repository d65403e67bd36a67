"""The documentation's pages: their headings, as links name them."""

import re
from functools import cache
from pathlib import Path
from typing import Final

CODE: Final = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.DOTALL | re.MULTILINE)


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, made as GitHub makes them."""
    text = CODE.sub(lambda code: code[0] if code[1] is None else "", page.read_text("utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    shown = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    plain = (re.sub(r"[^\w\- ]", "", heading) for heading in shown)
    return frozenset(heading.strip().replace(" ", "-") for heading in plain)
