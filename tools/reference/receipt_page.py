"""docs/reference/receipt.md: what a receipt says, field by field."""

import dataclasses
from collections.abc import Iterator
from typing import Final, get_type_hints

from heddle.core.results import FusedKv, RecallEstimate
from heddle.runtime.receipt import FallbackKind, Receipt, Span, Speculation, Splice
from tools.reference.docstrings import parse
from tools.reference.signatures import type_text
from tools.reference.tables import table

HEAD = """\
# Receipt

Every answer carries a receipt: `answer.receipt` in Python, `receipt` in the JSON of `POST /v1/ask`,
and `heddle ask --receipt` as text. Times are in seconds.
"""
INSIDE: Final = {
    "spans": Span,
    "kv_reuse": FusedKv,
    "splices": Splice,
    "speculations": Speculation,
    "recall": RecallEstimate,
}


def receipt_page() -> Iterator[str]:
    """Yield the lines of the page."""
    yield from HEAD.splitlines()
    yield ""
    yield from fields(Receipt)
    for name, kind in INSIDE.items():
        yield f"## {name}"
        yield ""
        yield " ".join(parse(kind.__doc__).text).strip()
        yield ""
        yield from fields(kind)
    yield "## fallback_kinds"
    yield ""
    yield f"The kinds are {', '.join(f'`{kind.value}`' for kind in FallbackKind)}."


def fields(kind: type) -> Iterator[str]:
    """Yield the table of a dataclass's fields, which its docstring must all explain."""
    meanings = parse(kind.__doc__).entries("Args")
    names = [one.name for one in dataclasses.fields(kind)]
    assert list(meanings) == names, f"{kind.__name__} explains {list(meanings)}, and has {names}"
    hints = get_type_hints(kind)
    rows = ((f"`{name}`", f"`{type_text(hints[name])}`", meanings[name]) for name in names)
    yield from table(("field", "type", "meaning"), rows)
